//! os.wake.cross_cpu: waking a process on another CPU.

use std::fs;

use super::link::Link;
use super::link::futex::futexes;
use super::link::pipe::pipes;
use super::ping_pong::{PeerKind, PeerOptions, Ring};
use super::turns::{self, Quantity};
use crate::prelude::*;

metric!(Wake, ABOUT);

static ABOUT: About = About {
    id: "os.wake.cross_cpu",
    title: "waking a sleeper on another CPU",
    timed: "half of a token's round trip between the worker and a process on another CPU, each \
            asleep while the other runs: the waker's system call, the IPI to the other CPU or the \
            flag that it polls, leaving the idle state, and the context switch, until the woken \
            process runs its own code",
    not_timed: "going to sleep, as far as it overlaps the other side's wake-up; CPU selection: \
                each process is pinned to one CPU",
    model: "via=futex a bound: a wake-up contains a system call, so ≥ os.syscall{call=getppid}; \
            the latency of an idle CPU depends on its idle state, for which no public source gives \
            a figure. via=pipe a value: via=futex plus what read1 and write1 cost beyond getppid",
    source: "Linux kernel/sched/core.c, try_to_wake_up and ttwu_queue; kernel/sched/idle.c",
    pitfalls: &[
        "in a guest an idle CPU halts: the number then includes the VM exit, the hypervisor's \
         wake-up of the virtual CPU and the exit for the interrupt. It then measures the \
         hypervisor more than the kernel",
        "an idle CPU that polls before it halts (haltpoll in a guest, idle=poll) is woken by a \
         flag in memory, without interrupt and VM exit: several times as fast. The record names \
         the idle driver and governor; an adaptive governor may switch between both",
        "deeper idle states have a longer exit latency: these processes sleep for microseconds; \
         one that sleeps for milliseconds may take longer to wake",
        "a process woken before it sleeps costs no wake-up: the kernel's context switch counts are \
         compared with the turns, and visits below 90 % are left out",
        "shared cores and caches matter: the other process runs on another core where there is one",
    ],
    parameters: &[Parameter::new(
        "via",
        "futex, pipe",
        "what both sleep on: a futex in shared memory · the read end of a pipe",
    )],
    needs: &["os.syscall"],
    requires: "two CPUs",
    expects: Counters::SLEEP,
    noise_limit: 0.10,
    // An adaptive idle governor would carry its state from one case to the other.
    cases_share_visits: false,
    ..About::BASE
};

const VIA: [&str; 2] = ["futex", "pipe"];

impl Probe for Wake {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        VIA.map(|via| ProbeCase { params: Params::one("via", via), cost_ns: 7e6 }).into()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let call = |name| Params::one("call", name);
        if case.params.text("via") == Some(VIA[0]) {
            let source = "the waker enters the kernel, and the woken process returns from it";
            return at_least_getppid(1.0, source, known);
        }
        let sum = Sum {
            terms: &[
                Term::once(ABOUT.id, Params::one("via", VIA[0])),
                Term::once("os.syscall", call("read1")),
                Term::once("os.syscall", call("write1")),
                Term::new(-2.0, "os.syscall", getppid()),
            ],
            tolerance: 0.3,
            source: "the same wake-up (Linux try_to_wake_up), within calls that move a byte",
            otherwise: "the other CPU's idle states differ: its governor polls in one case and \
                        halts in the other, or the kernel treats a pipe's synchronous wake-up \
                        differently",
        };
        Ok(sum.predict(known)?.self_consistent())
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let Some(cpu) = sampler.settings().other_cpu else {
            return Err(no_second_cpu());
        };
        let idle = idle_driver();
        for (index, case) in cases.iter().enumerate() {
            let wake_up = Quantity::WakeUp(&idle);
            if case.params.text("via") == Some(VIA[0]) {
                turns::measure(index, ring_on(cpu, futexes()), wake_up, sampler);
            } else {
                turns::measure(index, ring_on(cpu, pipes(2)), wake_up, sampler);
            }
        }
        Ok(())
    }
}

pub(super) fn no_second_cpu() -> SamplerFault {
    SamplerFault::unavailable("this process may use one CPU only", Remedy::SecondCpu)
}

/// A ring of the worker and a process on another CPU.
fn ring_on<L: Link>(cpu: u32, links: Result<Vec<L>>) -> Result<Ring<L>> {
    let options = PeerOptions { kind: PeerKind::Process, set_bytes: 0, cpu };
    let ring = Ring::join(links?, options)?;
    // After the start: the peers inherit the affinity of the worker.
    ring.move_peers_to(cpu)?;
    Ok(ring)
}

/// The kernel's idle driver and governor.
fn idle_driver() -> String {
    let read = |file: &str| {
        let text = fs::read_to_string(format!("/sys/{file}"));
        text.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
    };
    let folder = "devices/system/cpu/cpuidle";
    let driver = read(&format!("{folder}/current_driver"));
    let governor = read(&format!("{folder}/current_governor"));
    let polls = match driver.as_str() {
        "haltpoll" => {
            format!(", polls up to {} ns", read("module/haltpoll/parameters/guest_halt_poll_ns"))
        }
        _ => String::new(),
    };
    format!("idle driver {driver}, governor {governor}{polls}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::check_names;
    use crate::smoke;

    #[test]
    fn one_cpu_is_unavailable() {
        let mut sampler = smoke::sampler_on(2, 0, None);
        let cases = Wake.cases(&Host::default(), &Sizes::default());
        let fault = Wake.visit(&cases, &mut sampler).unwrap_err();
        assert!(
            matches!(&fault, SamplerFault::Unavailable(text, _) if text.contains("one CPU only"))
        );
    }

    #[test]
    fn checks_count_sleeps_and_name_the_idle_driver() {
        if smoke::pinned(smoke::other_than).is_none() {
            return smoke::skipped("one CPU only");
        }
        let cases = Wake.cases(&Host::default(), &Sizes::default());
        for (case, sample) in cases.iter().zip(smoke::visit(&Wake, &cases)) {
            let Ok(sample) = sample else { continue };
            let names = ["asleep when woken", "two CPUs", "turns"];
            assert_eq!(check_names(&sample), names, "{}", case.params);
            let detail = &sample.checks[0].detail;
            assert!(detail.contains("idle driver"), "{detail}");
        }
        assert!(smoke::has_no_children());
    }

    #[test]
    fn missing_cpu_is_named() {
        let fault = ring_on(1000, pipes(2)).err().unwrap();
        assert!(fault.to_string().contains("CPU 1000 went offline"), "{fault}");
        assert!(smoke::has_no_children());
    }
}
