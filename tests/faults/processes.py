"""Faults of a process: its threads, children, signals, limits, descriptors and files. vandals.py has their subjects."""

from __future__ import annotations

import atexit
import contextlib
import gc
import locale
import logging
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import tempfile
import threading
import time

KEPT: list[object] = []


def exits_in_thread(x):
    threading.Thread(target=lambda: (time.sleep(0.05), os._exit(6)), daemon=True).start()
    time.sleep(0.3)


def raises_in_thread(x):
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()


def threads_by_the_hundred(x):
    for _ in range(100):
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()


def thread_not_daemon(x):
    threading.Thread(target=time.sleep, args=(3600,)).start()


def alarm_now(x):
    signal.alarm(1)


def fork_bomb(x):
    for _ in range(50):
        if os.fork() == 0:
            time.sleep(3600)
            os._exit(0)


def double_fork_daemon(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(3604)
        os._exit(0)


def kills_its_group(x):
    os.killpg(0, signal.SIGTERM)
    time.sleep(5)


def kills_sibling(x):
    for place in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            pid, _, rest = place.read_text().partition(" ")
            if int(rest.rpartition(") ")[2].split()[1]) == os.getppid() and int(pid) != os.getpid():
                os.kill(int(pid), signal.SIGKILL)


def waits_for_children(x):
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def sigusr1_ignored_and_hangs(x):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    time.sleep(3600)


def all_signals_blocked_and_hangs(x):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    time.sleep(3600)


def nice(x):
    os.nice(19)


def new_session(x):
    with contextlib.suppress(OSError):
        os.setsid()
    with contextlib.suppress(OSError):
        os.setpgid(0, os.getppid())


def limit_of_files(x):
    resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))


def limit_of_file_size(x):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def limit_of_processes(x):
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))


def limit_of_cpu(x):
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    while True:
        pass


def limit_of_stack(x):
    resource.setrlimit(resource.RLIMIT_STACK, (65536, 65536))


def atexit_hangs(x):
    atexit.register(time.sleep, 3600)
    raise SystemExit(0)


class Deleted:
    def __del__(self):
        raise RuntimeError("in __del__")


def raises_when_deleted(x):
    KEPT.append(Deleted())
    KEPT.clear()


class ExitsWhenDeleted:
    def __del__(self):
        os._exit(8)


def exits_in_collector(x):
    cycle = [ExitsWhenDeleted()]
    cycle.append(cycle)
    del cycle
    gc.collect()


# Streams, descriptors and files.


def closes_at_random(x):
    for descriptor in random.Random(3).sample(range(3, 30), 8):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def descriptors_leak(x):
    for _ in range(200):
        KEPT.append(open(os.devnull))


def descriptors_end(x):
    with contextlib.suppress(OSError):
        while True:
            KEPT.append(socket.socketpair())


def huge_line_on_stderr(x):
    os.write(2, b"e" * 5_000_000)


def null_bytes_on_stdout(x):
    os.write(1, b"\0\xff\xfe" * 100_000)


def logs_to_closed_stream(x):
    stream = open(os.devnull, "w")
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    stream.close()
    logging.getLogger().error("nobody hears this")


def stdout_is_a_full_pipe(x):
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    KEPT.append(reading)
    os.set_blocking(1, True)
    os.write(1, b"z" * 60_000)


def working_directory_gone(x):
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


def chroot_fails(x):
    os.chroot("/nowhere")


def temporary_folder_locked(x):
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0)
    tempfile.tempdir = folder
    os.environ["TMPDIR"] = folder
    shutil.rmtree(folder, ignore_errors=True)


def locale_changed(x):
    for name in ("de_DE.UTF-8", "C"):
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_ALL, name)
    os.environ["LC_ALL"] = "tr_TR.UTF-8"
