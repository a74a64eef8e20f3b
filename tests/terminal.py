"""A command on a pseudo-terminal, for tests of what a person types and sees."""

import os
import re
import select
import sys
import time

LIMIT = 60


class Terminal:
    """A child process on a pseudo-terminal."""

    def __init__(self, arguments, environment):
        import pty  # not on Windows

        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, [sys.executable, *arguments], environment)
        self.text = ""

    def read(self, until, again=""):
        """What is written up to and with `until`, or to the end; a key is pressed `again`."""
        end, new = time.monotonic() + LIMIT, ""
        next_key = time.monotonic() + 5
        while until is None or until not in new:
            assert time.monotonic() < end, new
            if select.select([self.descriptor], [], [], 0.2)[0]:
                try:
                    piece = os.read(self.descriptor, 65536).decode()
                except OSError:
                    break
                if not piece:
                    break
                new += piece
            elif again and time.monotonic() > next_key:
                os.write(self.descriptor, again.encode())
                next_key += 5
        self.text += new
        return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", new).replace("\r", "")

    def press(self, key, until="q: quit] "):
        """What follows a key."""
        os.write(self.descriptor, key.encode())
        return self.read(until)

    def close(self):
        """The exit status."""
        self.read(None)
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
