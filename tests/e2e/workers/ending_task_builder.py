"""A builder process of networks that ends over whatever is not to run as it is written."""

from __future__ import annotations

import os

from metasched.graph.code.builder_worker import TaskBuilder
from metasched.measure.workers.protocol import Message
from metasched.measure.workers.worker import main


class EndingTaskBuilder(TaskBuilder):
    def handle(self, message: Message) -> Message:
        if message.body.get("trace", "") is not None:
            os._exit(3)
        return super().handle(message)


if __name__ == "__main__":
    main(EndingTaskBuilder)
