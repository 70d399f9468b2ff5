//! os.vdso.clock_gettime: clock_gettime through the vDSO.
//!
//! A child process makes the same calls under a seccomp filter that fails every system call, which
//! proves that none is made.

use std::mem::MaybeUninit;
use std::path::Path;

use super::child::{creation_fault, fork};
use super::raw_call::system_call;
use crate::prelude::*;

metric!(ClockGettime, ABOUT);

static ABOUT: About = About {
    id: "os.vdso.clock_gettime",
    title: "clock_gettime (vDSO)",
    timed: "one clock_gettime of the C library, as a program calls it: the function, the vDSO code \
            behind it, reading the counter and the conversion to seconds and nanoseconds",
    not_timed: "a system call: none is made, which is checked; looking up the vDSO, which the C \
                library does at program start",
    model: "monotonic with clock source tsc: (RDTSCP + conversion) cycles ÷ core frequency + 2 × \
            cpu.call{args=0}; realtime: the same, or monotonic ± 15 % without \
            these cycles; monotonic_coarse: a bound, ≤ monotonic, \
            since it reads no counter; no value: what its loads overlap is not published",
    source: "Linux lib/vdso/gettimeofday.c, do_hres and do_coarse, and rdtsc_ordered in \
             arch/x86/include/asm/tsc.h: RDTSCP, then subtract, multiply, add and shift between \
             two loads of a sequence number; data/uarch.toml: rdtscp_cycles, \
             time_conversion_cycles",
    pitfalls: &[
        "with another clock source (hpet, acpi_pm, an unstable TSC) the vDSO enters the kernel: \
         before and after the rounds a child makes the same calls under a seccomp filter that \
         fails every system call, and if one is made the case is unavailable",
        "syscall(SYS_clock_gettime), strace, some sanitizers and emulators bypass the vDSO and pay \
         a kernel entry",
        "the coarse clock advances only with the timer tick, every 1 to 10 ms",
        "RDTSCP waits for all earlier instructions: in a program with outstanding loads the call \
         also waits for these",
        "a hypervisor that intercepts RDTSCP makes the call up to a thousand times slower, which \
         shows here",
    ],
    parameters: &[Parameter::new(
        "clock",
        "monotonic, realtime, monotonic_coarse",
        "CLOCK_MONOTONIC · CLOCK_REALTIME · CLOCK_MONOTONIC_COARSE",
    )],
    needs: &["cpu.frequency", "cpu.call"],
    requires: "a kernel with seccomp filters, for the check",
    ..About::BASE
};

const MONOTONIC: &str = "monotonic";
/// The predictions of the others need the first.
const CLOCKS: [(&str, libc::clockid_t); 3] = [
    (MONOTONIC, libc::CLOCK_MONOTONIC),
    ("realtime", libc::CLOCK_REALTIME),
    ("monotonic_coarse", libc::CLOCK_MONOTONIC_COARSE),
];
/// Includes two child processes for the check.
const COST_NS: f64 = 9e6;
const CURRENT_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

impl Probe for ClockGettime {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        let case = |(name, _)| ProbeCase { params: Params::one("clock", name), cost_ns: COST_NS };
        CLOCKS.map(case).into()
    }

    fn predict(&self, case: &ProbeCase, host: &Host, known: &Inputs<'_>) -> Model {
        let monotonic = Params::one("clock", MONOTONIC);
        match case.params.text("clock") {
            Some(MONOTONIC) => predict_by_cycles(host, known),
            Some("realtime") => {
                let source = "the same function with other base times: Linux \
                              lib/vdso/gettimeofday.c, do_hres";
                let otherwise = "one of the two clocks takes another path through the vDSO";
                let sibling = || same_as((ABOUT.id, monotonic), 0.15, (source, otherwise), known);
                predict_by_cycles(host, known).or_else(|_| sibling())
            }
            _ => {
                let limit = earlier(ABOUT.id, &monotonic, known)?;
                let name = format!("{}{monotonic}", ABOUT.id);
                let source = "it copies the time of the last tick without reading a counter: Linux \
                              lib/vdso/gettimeofday.c, do_coarse";
                Ok(Prediction::at_most(limit, &format!("≤ {name}"), source)
                    .with_input(&name, limit, Origin::this_run(&name))
                    .otherwise("the coarse clock enters the kernel, or the vDSO is not used"))
            }
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let clocks: Vec<Option<libc::clockid_t>> = cases.iter().map(clock_of).collect();
        measure(&clocks, sampler, &mut check_vdso);
        Ok(())
    }
}

fn clock_of(case: &ProbeCase) -> Option<libc::clockid_t> {
    let name = case.params.text("clock")?;
    CLOCKS.iter().find(|(known, _)| *known == name).map(|(_, clock)| *clock)
}

/// The counter, the conversion and two function calls.
fn predict_by_cycles(host: &Host, known: &Inputs<'_>) -> Model {
    match (host.cpu.architecture.as_str(), host.clocksource.as_deref()) {
        ("x86_64", Some("tsc")) => {}
        (_, source) => {
            let source = source.unwrap_or("unknown");
            return Err(NoModel::ClockSourceNotPublished { source: source.to_owned() });
        }
    }
    let row = uarch::row_for(host)?;
    let counter = row.sourced("rdtscp_cycles")?;
    let conversion = row.sourced("time_conversion_cycles")?;
    let hz = earlier("cpu.frequency", &Params::none(), known)?;
    let call = earlier("cpu.call", &Params::one("args", 0), known)?;
    let hardware = (counter.value + conversion.value) * 1e9 / hz;
    let formula = "(RDTSCP + conversion) ÷ frequency + 2 × cpu.call{args=0}";
    let source = format!("{}; {}", counter.source, conversion.source);
    Ok(Prediction::sum(hardware, 2.0 * call, 0.2, formula, &source)
        .with_input("RDTSCP cycles", counter.value, row.origin())
        .with_input("conversion cycles", conversion.value, row.origin())
        .with_input("frequency", hz, Origin::this_run("cpu.frequency"))
        .with_input("cpu.call{args=0}", call, Origin::this_run("cpu.call{args=0}"))
        .otherwise("reading the counter differs from bare metal: virtualization"))
}

/// Measures each clock that passes the check before and after.
fn measure(
    clocks: &[Option<libc::clockid_t>],
    sampler: &mut Sampler,
    check: &mut dyn FnMut(libc::clockid_t) -> Result<()>,
) {
    let (mut works, mut watches) = (Vec::new(), Vec::new());
    for (index, clock) in clocks.iter().enumerate() {
        let Some(clock) = *clock else {
            sampler.fault(index, SamplerFault::Failed("unknown clock".to_owned()));
            continue;
        };
        match check(clock).and_then(|()| VdsoWatch::begin(clock, sampler.clock())) {
            Ok(watch) => {
                works
                    .push(SamplerWork::batched(index, move |iterations| repeat(clock, iterations)));
                watches.push((index, watch));
            }
            Err(fault) => sampler.fault(index, fault),
        }
    }
    sampler.run(works);
    for (index, watch) in watches {
        let (passed, detail) = watch.end(sampler.clock());
        sampler.check(index, "clock rate", passed, detail);
        match check(watch.clock) {
            Ok(()) => sampler.check(index, "no system call", true, "before and after the rounds"),
            Err(fault) => sampler.fault(index, fault),
        }
    }
}

/// Makes the calls; returns how many succeeded.
fn repeat(clock: libc::clockid_t, iterations: u64) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    let mut done = 0;
    for _ in 0..iterations {
        // SAFETY: the pointer is to writable memory of the type that the call writes.
        done += u64::from(unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } == 0);
    }
    done
}

fn read_ns(clock: libc::clockid_t) -> Result<i128> {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: as above, and a zeroed `timespec` is valid.
    let (result, time) =
        unsafe { (libc::clock_gettime(clock, time.as_mut_ptr()), time.assume_init()) };
    match result {
        0 => Ok(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)),
        _ => Err(SamplerFault::system("clock_gettime", std::io::Error::last_os_error())),
    }
}

/// A clock's time at the start of the rounds, between two timestamps of the run's clock.
struct VdsoWatch {
    clock: libc::clockid_t,
    resolution_ns: f64,
    before: u64,
    time_ns: i128,
    after: u64,
}

impl VdsoWatch {
    fn begin(clock: libc::clockid_t, reference: &Clock) -> Result<Self> {
        let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to writable memory of the type that the call writes.
        if unsafe { libc::clock_getres(clock, &mut resolution) } != 0 {
            return Err(SamplerFault::system("clock_getres", std::io::Error::last_os_error()));
        }
        let before = reference.start();
        let time_ns = read_ns(clock)?;
        let after = reference.stop();
        Ok(Self { clock, resolution_ns: resolution.tv_nsec as f64, before, time_ns, after })
    }

    /// Whether the clock advanced as much as the run's clock.
    fn end(&self, reference: &Clock) -> (bool, String) {
        let before = reference.start();
        let time_ns = match read_ns(self.clock) {
            Ok(time_ns) => time_ns,
            Err(fault) => return (false, fault.to_string()),
        };
        let after = reference.stop();
        let shortest_ns = reference.ns(self.after, before);
        let longest_ns = reference.ns(self.before, after);
        let elapsed_ns = (time_ns - self.time_ns) as f64;
        let passed = is_as_fast(elapsed_ns, [shortest_ns, longest_ns], self.resolution_ns);
        (passed, format!("{:.1} ms in {:.1} ms", elapsed_ns / 1e6, longest_ns / 1e6))
    }
}

/// Whether a clock advanced as much as another between two limits, within 1 % and twice its
/// resolution.
fn is_as_fast(elapsed_ns: f64, [shortest_ns, longest_ns]: [f64; 2], resolution_ns: f64) -> bool {
    let slack_ns = 2.0 * resolution_ns + 0.01 * longest_ns;
    let limits = shortest_ns - slack_ns..=longest_ns + slack_ns;
    elapsed_ns >= 0.0 && limits.contains(&elapsed_ns)
}

/// Calls under the filter.
const CHECKED_CALLS: u64 = 10_000;
/// The filter's errno, which clock_gettime never returns.
const FILTERED: i32 = libc::EXDEV;

/// Exit statuses of the child.
const NO_SYSTEM_CALL: i32 = 7;
const SYSTEM_CALL: i32 = 8;
/// The filter could not be installed.
const NO_FILTER: i32 = 9;
/// The filter had no effect.
const UNFILTERED: i32 = 10;

/// Checks that the clock makes no system call.
fn check_vdso(clock: libc::clockid_t) -> Result<()> {
    // SAFETY: system calls, and clock_gettime, which is async-signal-safe.
    let child = unsafe { fork(|| call_under_filter(clock)) };
    let exit = child.map_err(|error| creation_fault("fork", &error))?.wait()?;
    check_result(exit.status.code(), || std::fs::read_to_string(Path::new(CURRENT_SOURCE)).ok())
}

fn check_result(status: Option<i32>, source: impl Fn() -> Option<String>) -> Result<()> {
    match status {
        Some(NO_SYSTEM_CALL) => Ok(()),
        Some(SYSTEM_CALL) => {
            let source = source().unwrap_or_else(|| "unknown".to_owned());
            let what = format!("the vDSO enters the kernel: clock source {}", source.trim());
            Err(SamplerFault::unavailable(what, Remedy::ReadableClockSource))
        }
        Some(NO_FILTER) => {
            let what = "cannot check for system calls: seccomp filters are unavailable";
            Err(SamplerFault::unavailable(what, Remedy::kernel_with("CONFIG_SECCOMP_FILTER")))
        }
        _ => Err(SamplerFault::Failed(format!("vDSO check ended with exit status {status:?}"))),
    }
}

/// Makes the calls under the filter, in the child.
fn call_under_filter(clock: libc::clockid_t) -> i32 {
    if !fail_every_system_call() {
        return NO_FILTER;
    }
    // SAFETY: takes no argument.
    if unsafe { system_call(libc::SYS_getppid, [0; 4]) } != -(FILTERED as isize) {
        return UNFILTERED;
    }
    if repeat(clock, CHECKED_CALLS) == CHECKED_CALLS { NO_SYSTEM_CALL } else { SYSTEM_CALL }
}

/// Installs a filter that fails all system calls except exit.
fn fail_every_system_call() -> bool {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let skip_if = |number: i64, skip: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: skip,
        jf: 0,
        k: number as u32,
    };
    let mut filter = [
        // The first word of seccomp_data is the system call number.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        skip_if(libc::SYS_exit_group, 2),
        skip_if(libc::SYS_exit, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | FILTERED as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let (yes, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: numbers, and a program that outlives the call; only this child is affected.
    unsafe {
        // Without CAP_SYS_ADMIN the kernel requires it before a filter.
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, none, none, none) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    }
}

#[cfg(test)]
mod tests;
