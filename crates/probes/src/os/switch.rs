//! os.switch.thread and os.switch.process: a context switch on one CPU.

use super::ping_pong::{PeerKind, PeerOptions, Ring};
use super::turns::{self, Quantity};
use crate::prelude::*;

pub static SWITCH_THREAD: Switch = Switch { about: &THREAD, kind: PeerKind::Thread };
pub static SWITCH_PROCESS: Switch = Switch { about: &PROCESS, kind: PeerKind::Process };

pub struct Switch {
    about: &'static About,
    kind: PeerKind,
}

const BASE: About = About {
    timed: "half of (a byte's round trip through two pipes to a peer on the same CPU − the same \
            calls through a pipe to oneself): waking the peer, blocking, and the scheduler's \
            context switch. At each turn both sides read and write every cache line of their \
            working sets; the subtracted loop touches the worker's set as often",
    not_timed: "pipe writes and reads and touching a cached working set, which are subtracted; \
                waking an idle or another CPU, which is os.wake.cross_cpu",
    pitfalls: &[
        "on two CPUs this would measure a wake-up, not a switch: both sides run on the worker's \
         CPU, which each verifies at its exit",
        "a peer that polls, or passes several bytes at once, switches less often than it passes: \
         the kernel's context switch counts of both sides are compared with the round trips",
        "the subtracted loop runs after the switches: between them it would make the worker \
         CPU-bound for the scheduler, and its turns would end by preemption",
        "the return from a function after a system call is mispredicted, and costs more after a \
         switch: the system calls are inlined, so neither loop contains returns. \
         os.pipe.rtt{calls=libc} includes them",
        "with a working set the difference includes refilling the cache lines that the peer \
         evicted; where both sets fit in L1 together there is little to refill",
        "waking the sleeper is part of the number: the pipe to oneself has no wake-up",
        "threads that share a descriptor table count a file's users atomically in each read and \
         write (Linux fdget), which a single-threaded process does not: 5 % of the round trip on a \
         Zen 5 guest, about half of it also in the subtracted loop. So the peer thread has its own \
         table",
        "changing the address space is a small part of a switch where the TLB is tagged (PCID) and \
         no mitigation flushes between processes (IBPB): process ÷ thread was 1.04 by pipes and \
         1.06 by futexes there, which a quick run cannot always resolve",
    ],
    parameters: &[Parameter::new(
        "set_bytes",
        "0, 16 KiB, 64 KiB, 256 KiB, 1 MiB",
        "working set that each side reads and writes at each turn",
    )],
    // Other cases change the scheduler's statistics of the worker.
    cases_share_visits: false,
    is_difference: true,
    ..super::TURNS
};

static THREAD: About = About {
    id: "os.switch.thread",
    title: "switch between threads",
    model: "a bound: waking a sleeper, picking the next task and switching registers and stacks \
            take longer than a kernel entry alone: ≥ os.syscall{call=getppid}. No value: \
            scheduler and register switch are known from this metric alone, and a set is \
            written back and refilled in part while the switch runs, so that one with a set may \
            even cost less than one without",
    source: "bound: lmbench (McVoy & Staelin, USENIX 1996), whose tables show a switch above a \
             simple system call; Linux kernel/sched/core.c, try_to_wake_up and __schedule",
    needs: &["os.syscall"],
    published: "1.20 µs (2016, i5-5257U)",
    ..BASE
};

static PROCESS: About = About {
    id: "os.switch.process",
    title: "switch between processes",
    model: "a bound: a thread switch plus the change of address space with its TLB misses: ≥ \
            os.switch.thread{set_bytes=0}; with a working set, which is written back and \
            refilled in part while the switch runs, ≥ os.syscall{call=getppid}. No value: the \
            cost of an address space change is known from this metric alone",
    source: "METHOD 25: thread switch < process switch; Linux arch/x86/mm/tlb.c, \
             switch_mm_irqs_off, which a switch between threads skips",
    needs: &["os.syscall", "os.switch.thread"],
    published: "3.87 µs (2016, i5-5257U)",
    ..BASE
};

/// Working sets.
const SET_BYTES: [i64; 5] = [0, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

metric!(Switch.about);

impl Probe for Switch {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        // Includes the subtracted loop and the peer's start and exit. With the largest set a turn
        // is longer than the shortest batch.
        let cost_ns = |bytes| if bytes < 1 << 20 { 10e6 } else { 14e6 };
        let case =
            |bytes| ProbeCase { params: Params::one("set_bytes", bytes), cost_ns: cost_ns(bytes) };
        SET_BYTES.map(case).into()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let none = Params::one("set_bytes", 0);
        match (case.params.integer("set_bytes"), self.kind) {
            (Some(0), PeerKind::Process) => {
                let source = "the same, plus the change of address space (METHOD 25)";
                at_least(THREAD.id, &none, source, known)
            }
            // The stores to a working set drain while the switch runs: on one Zen guest a switch
            // with sets of 256 KiB takes 1.18 µs, and one without 1.49 µs.
            _ => {
                let source = "lmbench (McVoy & Staelin, USENIX 1996), tables of system calls and \
                              of context switches";
                at_least_getppid(1.0, source, known)
            }
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let (kind, cpu) = (self.kind, sampler.settings().cpu);
        for (index, case) in cases.iter().enumerate() {
            let bytes = case.params.number("set_bytes");
            let options = PeerOptions { kind, set_bytes: bytes.unwrap_or(0), cpu };
            turns::measure(index, Ring::piped(2, options), Quantity::Switch, sampler);
        }
        Ok(())
    }
}
