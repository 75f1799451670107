"""The roles that a seat can be named for."""

from __future__ import annotations

from collections.abc import Mapping

from torture.claiming import Claimer, Stage
from torture.holding import Holder
from torture.worker import Post, Worker
from torture.writing import Follower, Writer

ROLES: Mapping[str, type[Worker]] = {
    "writer": Writer,
    "claimer": Claimer,
    "holder": Holder,
    "stage": Stage,
    "follower": Follower,
}
PAUSABLE = ("claimer", "holder", "stage")


def work(post: Post) -> None:
    """Does the work of the role that the seat is named for."""
    ROLES[post.seat.partition("-")[0]](post).work()
