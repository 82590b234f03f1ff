"""The owner of one virtual board: a single loop over its pty, its chip and its control socket."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from harness.boards.board import Board
from harness.clock import monotonic_s
from harness.emulator import firmware, native, qemu
from harness.emulator.behaviour import Behaviour
from harness.emulator.child import Child, Ending
from harness.emulator.control import ControlServer, Reply, refusal
from harness.emulator.folder import OwnerId
from harness.emulator.governor import leave
from harness.emulator.image import as_elf
from harness.emulator.line import Line
from harness.emulator.pty import PtyPort
from harness.emulator.route import Route, Wires
from harness.emulator.stand_in import Publish, StandIn
from harness.emulator.wakeup import READ, WRITE, Watcher, drain, signals
from harness.errors import HilError

LOOK_S = 0.02
"""How often a closed port of a running board is looked at: the kernel signals no opening."""

NUDGE_S = 0.01
"""How soon a chip that left input lying is nudged again: it may not have been ready."""

LEASE_S = 0.25
"""How often the process that holds the board's lease is looked at."""

IDLE_S = 0.5
"""How often a board with no running chip looks around, or somebody typing at it would block."""


class Owner:
    """One plugged-in board, from ready to unplugged.  :meth:`serve` runs it.

    A board with a Linux side is a stand-in: its debugger uses :meth:`start`, :meth:`restart`,
    :meth:`hold` and :meth:`look`.
    """

    def __init__(
        self,
        board: Board,
        folder: Path,
        port: PtyPort,
        server: ControlServer,
        *,
        lease: OwnerId | None = None,
        behaviour: Behaviour | None = None,
        publish: Publish | None = None,
        router: Path | None = None,
    ) -> None:
        self._board = board
        self._folder = folder
        self._line = Line(port)
        self._server = server
        self._lease = lease
        self._watcher = Watcher()
        server.before_close = self._watcher.forget
        self._firmware: firmware.Firmware | None = None
        self._child: Child | None = None
        self._ending: Ending | None = None
        self._boots = 0
        self._flashed = 0
        self._sent_at_boot = 0
        self._plugged_at_s = self._booted_at_s = monotonic_s()
        self._lease_look_at_s = 0.0
        self._unplugged = False
        self._stand_in: StandIn | None = None
        self._route: Route = Wires(self._line)
        if board.linux_side is not None:
            self._stand_in = StandIn(
                board.linux_side,
                self,
                self._line,
                folder,
                behaviour=behaviour or Behaviour(),
                publish=publish or (lambda **_: None),
                forget=self._watcher.forget,
                router=router,
            )
            self._route = self._stand_in.route

    def hang_up(self) -> None:
        """Close the port, whichever it is by now."""
        self._line.port.close()

    def serve(self, on_ready: Callable[[], None]) -> None:
        """Be the board until it is unplugged, signalled or its lease ends.

        ``on_ready`` is called once a signal would already end it cleanly.
        """
        with signals(self._unplug) as wakeup:
            try:
                on_ready()
                while not self._unplugged:
                    timeout_s = self._settle()
                    for fd in self._watcher.wait(self._wanted(wakeup), timeout_s):
                        self._ready(fd, wakeup)
                    self._check_lease()
            finally:
                self._stop_chip()
                self._watcher.close()
                self._route.close()

    def _unplug(self) -> None:
        self._unplugged = True

    def _check_lease(self) -> None:
        now_s = monotonic_s()
        if self._lease is not None and now_s >= self._lease_look_at_s:
            self._lease_look_at_s = now_s + LEASE_S
            if not self._lease.alive:
                self._unplug()

    def _settle(self) -> float:
        """Bring port, queues and chip in line with what is so now; seconds until the next look."""
        now_s = monotonic_s()
        line, child = self._line, self._child
        if self._stand_in is not None:
            self._stand_in.settle(now_s)
        if line.look():
            self._hear()
        wait_s = min(IDLE_S if self._lease is None else LEASE_S, self._route.settle(now_s))
        if child is not None:
            self._write_in()
            if self._ending is None and (ending := child.ending()):
                self._ending = ending
                self._route.ended()
        if child is None or self._ending is not None:
            return wait_s
        permit = leave(
            now_s, reader=line.reader, read_at_s=line.read_at_s, traffic_at_s=line.traffic_at_s
        )
        child.pause(not permit.run)
        if child.nudge():
            wait_s = min(wait_s, NUDGE_S)
        # A deadline of this very moment must not turn the loop into a spin.
        wait_s = min(wait_s, max(0.001, permit.again_at_s - now_s))
        return wait_s if line.reader else min(wait_s, LOOK_S)

    def _wanted(self, wakeup: int) -> dict[int, int]:
        """Exactly what can be acted on, so that nothing ready is left ready."""
        wanted = dict.fromkeys(self._server.descriptors(), READ)
        wanted[wakeup] = READ
        wanted |= self._route.wanted()
        line, child = self._line, self._child
        if line.reader:
            hears = READ if line.takes_input else 0
            wanted[line.port.fd] = hears | (WRITE if line.outgoing else 0)
        if child is not None:
            says = self._route.takes_output and child.stdout not in child.ended
            wanted[child.stdout] = READ if says else 0
            wanted[child.stderr] = READ if child.stderr not in child.ended else 0
            hears = bool(self._route.to_chip) and child.stdin not in child.ended
            wanted[child.stdin] = WRITE if hears else 0
        return wanted

    def _ready(self, fd: int, wakeup: int) -> None:
        child = self._child
        if fd == wakeup:
            drain(wakeup)
        elif fd == self._line.port.fd:
            self._hear()
        elif self._route.ready(fd):
            self._write_in()
        elif child is not None and fd == child.stdout:
            self._route.said(child.read())
            self._write_in()
        elif child is not None and fd == child.stderr:
            child.listen()
        elif child is None or fd != child.stdin:
            self._server.ready(fd, self._handle)

    def _hear(self) -> None:
        runs = self._child is not None and self._ending is None
        self._line.hear(keep=runs or self._route.keeps_input)
        self._route.settle(monotonic_s())
        self._write_in()

    def _write_in(self) -> None:
        waiting = self._route.to_chip
        if waiting and self._child is not None:
            del waiting[: self._child.write(waiting)]

    def _handle(self, request: Mapping[str, object]) -> Reply | None:
        try:
            match request.get("op"):
                case "flash":
                    return self._flash(request.get("elf"))
                case "reset":
                    return self._reset()
                case "status":
                    return self._status()
                case "inspect":
                    return self._inspect()
                case "unplug":
                    self._unplug()
                    return {"ok": True}
                case "adb" if self._stand_in is not None:
                    return self._stand_in.adb(request.get("argv"))
                case "adb_state" if self._stand_in is not None:
                    return self._stand_in.adb_state()
                case other:
                    known = "flash, reset, status, inspect or unplug"
                    return refusal(f"there is no operation {other!r}", f"ask for {known}")
        except HilError as error:
            return refusal(error.message, error.remedy, type(error).__name__)
        except OSError as error:
            problem = f"the owner of the board is out of something: {error.strerror}"
            return refusal(problem, "free files, processes or disk space", "BenchError")

    def _flash(self, elf: object) -> Reply:
        if not isinstance(elf, str) or not Path(elf).is_absolute():
            return refusal(f"'elf' is {elf!r}", "give the absolute path of an ELF file")
        kind = native.elf_kind() if self._board.emulation is None else firmware.ARM
        self._firmware = firmware.take(Path(elf), self._folder, kind)
        self._flashed += 1
        if self._stand_in is not None:
            self._stand_in.flash.forget()
        self._boot(self._firmware)
        return {"ok": True, "sha256": self._firmware.sha256, "bytes": self._firmware.nbytes}

    def _flash_writes(self) -> int:
        return self._flashed + (self._stand_in.flash.writes if self._stand_in is not None else 0)

    def _reset(self) -> Reply:
        # Nothing flashed: the reset line does nothing, as on a blank chip.
        if self._firmware is not None:
            self._boot(self._firmware)
        return {"ok": True, "boots": self._boots}

    def start(self, payload: bytes | None) -> None:
        """Boot what the debugger wrote; None stays silent, as a loader that found nothing does."""
        if payload is None:
            self.hold()
            self._firmware = None
            return
        native_board = self._board.emulation is None
        written = self._folder / "written.elf"
        written.write_bytes(payload if native_board else as_elf(payload))
        kind = native.elf_kind() if native_board else firmware.ARM
        self._firmware = firmware.take(written, self._folder, kind)
        written.unlink()
        self._boot(self._firmware)

    def restart(self) -> None:
        """Boot the firmware that is there; none does nothing."""
        self._reset()

    def hold(self) -> None:
        """Keep the chip in reset until it is started."""
        self._stop_chip()
        self._route.ended()

    def look(self) -> Path | None:
        """The QMP socket of the running chip, kept awake for a look; None where there is none."""
        found = self._inspect().get("qmp")
        return Path(found) if isinstance(found, str) else None

    def _boot(self, image: firmware.Firmware) -> None:
        self._stop_chip()
        self._route.boots()
        self._sent_at_boot = self._line.sent_bytes
        emulation = self._board.emulation
        if emulation is None:
            self._child = native.start(image.path)
        else:
            qmp = self._folder / qemu.QMP_SOCKET
            qmp.unlink(missing_ok=True)
            self._child = qemu.start(emulation, image.path, qmp)
        self._boots += 1
        self._booted_at_s = monotonic_s()
        self._line.wake()

    def _stop_chip(self) -> None:
        if self._child is not None:
            for fd in (self._child.stdin, self._child.stdout, self._child.stderr):
                self._watcher.forget(fd)
            self._child.kill()
        self._child = None
        self._ending = None

    def _inspect(self) -> Reply:
        if self._board.emulation is None:
            return refusal("a native board has no chip to look into", "use an emulated board")
        if self._child is None or self._ending is not None:
            return refusal("nothing runs on the board", "flash it first, or see its status")
        self._line.wake()
        self._child.pause(False)
        return {"ok": True, "qmp": str(self._folder / qemu.QMP_SOCKET)}

    def _status(self) -> Reply:
        now_s = monotonic_s()
        line, child, image = self._line, self._child, self._firmware
        if child is not None and self._ending is None:
            self._ending = child.ending()
        if self._ending is not None:
            state = "died"
        elif child is None:
            state = "empty"
        else:
            state = "paused" if child.paused else "running"
        return {
            "ok": True,
            "state": state,
            "board": self._board.name,
            "emulated": self._board.emulation is not None,
            "stand_in": self._stand_in is not None,
            "serial_number": self._folder.name,
            "firmware_sha256": image.sha256 if image else None,
            "firmware_bytes": image.nbytes if image else None,
            "boots": self._boots,
            "flash_writes": self._flash_writes(),
            "uptime_s": round(now_s - self._plugged_at_s, 3),
            "since_boot_s": round(now_s - self._booted_at_s, 3) if child else None,
            "reader": line.port.look()[0],
            "sent_bytes": line.sent_bytes,
            "sent_bytes_at_boot": self._sent_at_boot,
            "received_bytes": line.received_bytes,
            "dropped_bytes": line.dropped_bytes,
            "queued_bytes": len(line.outgoing),
            "pid_of_owner": os.getpid(),
            "pid_of_chip": child.pid if child and self._ending is None else None,
            "ending": asdict(self._ending) if self._ending else None,
        }
