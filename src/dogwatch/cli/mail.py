"""Read, acknowledge or send mail. For agents; every message arrives once, by its id."""

from __future__ import annotations

import argparse
import sys

from dogwatch.cli.agent import ask_door, json_option, show
from dogwatch.model.brief import inbox

EXAMPLE = 'dogwatch mail send writer "the figures are in data/tides.csv"'


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True)
    read = verbs.add_parser("read", help="print all mail that is not acknowledged yet", allow_abbrev=False)
    json_option(read, "a list of {message, from, text}")
    acknowledge = verbs.add_parser("ack", help="say that a message is dealt with", allow_abbrev=False)
    acknowledge.add_argument("message", help="its id, as mail read shows it")
    json_option(acknowledge, "{message}")
    send = verbs.add_parser("send", help="send a text to another agent of the run", allow_abbrev=False)
    send.add_argument("to", help="the agent's name")
    send.add_argument("text", nargs="?", default="-", help="the text; - or nothing: from standard input")
    json_option(send, "{message}, and held where it waits until you have read your instructions")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.verb == "send":
        text = sys.stdin.read() if arguments.text == "-" else arguments.text
        answer = ask_door("mail_send", {"to": arguments.to, "text": text})
        return show(
            arguments, answer, f"{answer['message']}: {answer['held']}" if "held" in answer else answer["message"]
        )
    if arguments.verb == "ack":
        answer = ask_door("mail_ack", {"message": arguments.message})
        return show(arguments, answer, f"{answer['message']}: acknowledged")
    mail = ask_door("mail_read", {})["mail"]
    return show(arguments, mail, inbox([(letter["message"], letter["from"], letter["text"]) for letter in mail]))
