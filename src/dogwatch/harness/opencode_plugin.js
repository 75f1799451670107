// Dogwatch's plugin for OpenCode: runs dogwatch's hook for each event, in the words of Claude Code's hooks.
//
// A tool runs only after the hook has let it; where the hook cannot be run, no tool runs. All events go through one
// queue, so that the agent's spool has them in their order. `SETTINGS` stands above this text, put there by dogwatch.

import { spawn } from "node:child_process"
import path from "node:path"

const HOOK_MS = 30_000
const WORDS_MAX = 4000
const NAMES = {
  bash: "Bash", read: "Read", write: "Write", edit: "Edit", multiedit: "MultiEdit", glob: "Glob", grep: "Grep",
  list: "LS", task: "Task", todowrite: "TodoWrite", todoread: "TodoWrite", webfetch: "WebFetch",
  websearch: "WebSearch", question: "AskUserQuestion", skill: "Skill", plan_exit: "ExitPlanMode",
}
const PATCHED = /^\s*\*\*\* (?:(?:Add|Update|Delete) File|Move to):([^\n]+)/gm

// The variables that kept the client from waiting for a package registry are not for what it starts.
for (const name of SETTINGS.passing) delete process.env[name]

// Messages go out with an answer: where nobody would read it, the hook must not find them.
function run(event, payload, carries = false) {
  return new Promise((resolve) => {
    const child = spawn(SETTINGS.python, ["-I", "-S", SETTINGS.hook, event], {
      env: { ...process.env, ...SETTINGS.marks, ...(carries ? {} : { DOGWATCH_POST: "" }) },
      stdio: ["pipe", "pipe", "pipe"],
    })
    const said = { out: "", err: "" }
    const late = setTimeout(() => child.kill("SIGKILL"), HOOK_MS)
    const answer = (found) => (clearTimeout(late), resolve(found))
    child.stdout.setEncoding("utf8").on("data", (text) => (said.out += text))
    child.stderr.setEncoding("utf8").on("data", (text) => (said.err += text))
    child.on("error", (error) => answer({ code: -1, out: "", err: `dogwatch: the hook cannot be run: ${error}` }))
    child.on("close", (code) => answer({ code: code ?? -1, ...said }))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
  })
}

let queue = Promise.resolve()
function inOrder(work) {
  const done = queue.then(work)
  queue = done.catch(() => {})
  return done
}

function words(answer) {
  try {
    return JSON.parse(answer.out)
  } catch {
    return {}
  }
}

function clip(text) {
  return typeof text === "string" ? text.slice(0, WORDS_MAX) : ""
}

// Of all rules that fit, the last one decides: ours come last. A role's own rules stand instead of the user's.
function permit(config) {
  const { own, always } = SETTINGS.permissions
  const known = typeof config.permission === "string" ? { "*": config.permission } : config.permission
  if (own) for (const agent of Object.values(config.agent ?? {})) delete agent.permission, delete agent.tools
  config.permission = { ...(own ?? known), ...always }
}

export const Dogwatch = async ({ client, directory }) => {
  const parents = new Map()
  const agents = new Map()
  const running = new Map()
  const open = new Map()
  const busy = new Set()
  const counted = new Set()
  const limits = new Map()
  const failures = new Map()
  const last = { held: false, own: "", agent: undefined, model: undefined, text: "" }

  // A sub-agent is a session below another one.
  async function parentOf(session) {
    if (!parents.has(session)) {
      const found = await client.session.get({ path: { id: session } }).catch(() => undefined)
      if (!found?.data) return ""
      parents.set(session, found.data.parentID ?? "")
    }
    return parents.get(session)
  }

  async function base(session) {
    const parent = session ? await parentOf(session) : ""
    const who = parent ? { agent_id: session, agent_type: agents.get(session) ?? "sub-agent" } : {}
    return { session_id: session, conversation: SETTINGS.conversation, ...who, cwd: directory }
  }

  async function tell(event, session, more, carries = false) {
    return run(event, { ...(await base(session)), hook_event_name: event, ...more }, carries)
  }

  function calls(tool, args) {
    // The names that the hook knows begin with a capital: no tool of a user, a plugin or a server passes under one.
    const name = NAMES[tool] ?? (/^[a-z]/.test(tool) ? tool : `tool ${tool}`)
    const given = args && typeof args === "object" ? args : {}
    const resolve = (file) => path.resolve(directory, String(file))
    if (tool === "bash") {
      const cwd = given.workdir ? resolve(given.workdir) : directory
      return [{ cwd, tool_name: name, tool_input: { command: given.command, ...given } }]
    }
    if (tool === "apply_patch" || tool === "patch") {
      const files = [...String(given.patchText ?? "").matchAll(PATCHED)].map((match) => resolve(match[1].trim()))
      if (files.length) return files.map((file) => ({ tool_name: "Write", tool_input: { file_path: file } }))
    }
    const { filePath, ...rest } = given
    const input = filePath === undefined ? given : { file_path: resolve(filePath), ...rest }
    return [{ tool_name: name, tool_input: input }]
  }

  function about(tool, args) {
    const [{ tool_name, tool_input }] = calls(tool, args)
    const { content, oldString, newString, ...rest } = tool_input
    return { tool_name, tool_input: rest }
  }

  async function gate(input, args) {
    for (const call of calls(input.tool, args)) {
      const answer = await tell("PreToolUse", input.sessionID, { tool_use_id: input.callID, ...call })
      if (answer.code !== 0) throw new Error(answer.err.trim() || `dogwatch: the hook ended with code ${answer.code}`)
    }
  }

  function count(info) {
    const tokens = info.tokens ?? {}
    const sum = (tokens.input ?? 0) + (tokens.output ?? 0) + (tokens.cache?.read ?? 0) + (tokens.cache?.write ?? 0)
    if (!info.time?.completed || !sum || counted.has(info.id)) return
    counted.add(info.id)
    const model = `${info.providerID}/${info.modelID}`
    const usage = {
      input: tokens.input ?? 0,
      output: (tokens.output ?? 0) + (tokens.reasoning ?? 0),
      cache_creation: tokens.cache?.write ?? 0,
      cache_read: tokens.cache?.read ?? 0,
    }
    const more = { id: info.id, model, usage, window: limits.get(model) ?? 0, summary: info.summary === true }
    inOrder(() => tell("ModelCall", info.sessionID, { ...more, at: info.time.completed / 1000, cost: info.cost ?? 0 }))
  }

  async function stopped(session) {
    const failure = failures.get(session)
    failures.delete(session)
    if (await parentOf(session)) {
      if (running.delete(session)) await tell("SubagentStop", session, {})
      return
    }
    // What was interrupted comes back after the turn's end, and must not open it again.
    for (const [callID, call] of open) if (call.session === session) await broken(callID, call)
    if (failure) {
      await tell("StopFailure", session, failure)
      return
    }
    const said = { stop_hook_active: last.held, last_assistant_message: last.text }
    const answer = words(await tell("Stop", session, said, true))
    if (answer.decision !== "block" || typeof answer.reason !== "string") return
    last.held = true
    last.own = answer.reason
    const body = { agent: last.agent, model: last.model, parts: [{ type: "text", text: answer.reason }] }
    client.session.promptAsync({ path: { id: session }, body }).catch(() => {})
  }

  async function broken(callID, { tool, args, session }, error = "Tool execution aborted", is_interrupt = true) {
    open.delete(callID)
    const more = { tool_use_id: callID, error, is_interrupt, ...about(tool, args) }
    await tell("PostToolUseFailure", session, more)
  }

  async function begun(session) {
    if (!(await parentOf(session)) || running.has(session)) return
    running.set(session, true)
    await tell("SubagentStart", session, {})
  }

  function failed(part) {
    const call = open.get(part.callID)
    if (!call) return
    open.delete(part.callID)
    const error = clip(part.state.error)
    const isInterrupt = part.state.metadata?.interrupted === true || error === "Tool execution aborted"
    inOrder(() => broken(part.callID, call, error, isInterrupt))
  }

  const seen = {
    "session.created": ({ info }) => {
      parents.set(info.id, info.parentID ?? "")
      if (info.agent) agents.set(info.id, info.agent)
    },
    "session.status": ({ sessionID, status }) => {
      if (status.type === "busy") inOrder(() => begun(sessionID))
      // After an error it is told twice.
      if (status.type === "idle" && busy.delete(sessionID)) inOrder(() => stopped(sessionID))
      else if (status.type !== "idle") busy.add(sessionID)
      if (status.type === "retry") {
        const more = { notification_type: "api_retry", message: clip(status.message), attempt: status.attempt }
        inOrder(() => tell("Notification", sessionID, more))
      }
    },
    "session.error": ({ sessionID, error }) => {
      if (!sessionID || !error || error.name === "MessageAbortedError") return
      const said = clip(error.data?.message)
      const status = error.data?.statusCode ? ` ${error.data.statusCode}` : ""
      failures.set(sessionID, { error: `${error.name}${status}`, last_assistant_message: said })
    },
    "session.compacted": ({ sessionID }) => inOrder(() => tell("PostCompact", sessionID, { trigger: "auto" })),
    "permission.asked": (asked) => {
      const call = open.get(asked.tool?.callID)
      const shown = { patterns: (asked.patterns ?? []).join(" ") }
      const what = call ? about(call.tool, call.args) : { tool_name: asked.permission, tool_input: shown }
      inOrder(() => tell("PermissionRequest", asked.sessionID, { ...what, permission: asked.permission }))
    },
    "question.asked": ({ sessionID, questions }) => {
      const message = clip((questions ?? []).map((one) => one.question).join(" "))
      inOrder(() => tell("Notification", sessionID, { notification_type: "agent_needs_input", message }))
    },
    "message.updated": ({ info }) => info.role === "assistant" && count(info),
    "message.part.updated": ({ part }) => {
      if (part.type === "tool" && part.state?.status === "error") failed(part)
      if (part.type === "text" && part.time?.end && !parents.get(part.sessionID)) last.text = clip(part.text)
    },
  }

  const source = SETTINGS.session ? "resume" : "startup"
  inOrder(() => tell("SessionStart", SETTINGS.session, { source, transcript_path: SETTINGS.transcript }))

  return {
    config: async (config) => permit(config),
    event: async ({ event }) => {
      try {
        seen[event.type]?.(event.properties)
      } catch {
        // An event of another shape than was seen says nothing.
      }
    },
    "chat.message": async (input, output) => {
      if (await parentOf(input.sessionID)) return
      const texts = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = texts.map((part) => part.text).join("\n")
      last.agent = output.message?.agent ?? input.agent
      last.model = output.message?.model ?? input.model
      if (last.own && prompt === last.own) {
        last.own = ""
        return
      }
      last.held = false
      const answer = await inOrder(() => tell("UserPromptSubmit", input.sessionID, { prompt }, texts.length > 0))
      if (answer.code !== 0) throw new Error(answer.err.trim() || "dogwatch: the prompt was refused")
      const added = words(answer).hookSpecificOutput?.additionalContext
      if (added && texts.length) texts[texts.length - 1].text += `\n\n${added}`
    },
    "chat.params": async (input) => {
      const { model } = input
      if (model?.limit?.context) limits.set(`${model.providerID}/${model.id}`, model.limit.context)
    },
    "tool.execute.before": async (input, output) => {
      open.set(input.callID, { tool: input.tool, args: output.args, session: input.sessionID })
      try {
        await inOrder(() => gate(input, output.args))
      } catch (error) {
        open.delete(input.callID)
        throw error
      }
    },
    "tool.execute.after": async (input, output) => {
      if (!open.delete(input.callID)) return
      const invalid = input.tool === "invalid"
      const event = invalid ? "PostToolUseFailure" : "PostToolUse"
      const said = invalid ? { error: `invalid: ${clip(output?.output)}` } : { tool_response: clip(output?.output) }
      const more = { tool_use_id: input.callID, ...about(input.tool, input.args), ...said }
      const isText = typeof output?.output === "string"
      const carries = isText || Array.isArray(output?.content)
      const answer = words(await inOrder(() => tell(event, input.sessionID, more, carries)))
      const added = answer.hookSpecificOutput?.additionalContext
      if (added && isText) output.output += `\n\n${added}`
      else if (added) output.content.push({ type: "text", text: added })
    },
    "experimental.session.compacting": async (input) => {
      inOrder(() => tell("PreCompact", input.sessionID, { trigger: "auto" }))
    },
    dispose: async () => {
      await inOrder(() => tell("SessionEnd", "", { reason: "other" }))
    },
  }
}
