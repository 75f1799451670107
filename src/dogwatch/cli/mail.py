"""Read, acknowledge or send mail. For agents; every message arrives once, by its id."""

from __future__ import annotations

import argparse
import sys

from dogwatch.cli.agent import ask_door
from dogwatch.cli.framework import print_json

EXAMPLE = 'dogwatch mail send writer "the figures are in data/tides.csv"'


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True)
    read = verbs.add_parser("read", help="print all mail that is not acknowledged yet")
    read.add_argument("--json", action="store_true", help="a list of {message, from, text}")
    acknowledge = verbs.add_parser("ack", help="say that a message is dealt with")
    acknowledge.add_argument("message")
    send = verbs.add_parser("send", help="send a text to another agent of the run")
    send.add_argument("to")
    send.add_argument("text", nargs="?", default="-", help="the text; - or nothing: from standard input")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.verb == "send":
        text = sys.stdin.read() if arguments.text == "-" else arguments.text
        print(ask_door("mail_send", {"to": arguments.to, "text": text})["message"])
    elif arguments.verb == "ack":
        print(f"{ask_door('mail_ack', {'message': arguments.message})['message']}: acknowledged")
    else:
        mail = ask_door("mail_read", {})["mail"]
        if arguments.json:
            print_json(mail)
        elif not mail:
            print("no mail")
        for letter in [] if arguments.json else mail:
            print(f"{letter['message']} from {letter['from']}:\n{letter['text']}\n")
    return 0
