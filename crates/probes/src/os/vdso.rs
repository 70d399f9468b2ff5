//! os.vdso.clock_gettime: asking for the time, which the kernel's own page of code answers.
//!
//! That no system call is made is not taken from the kernel's documentation: a child makes the
//! same calls under a filter that fails every system call.

use std::mem::MaybeUninit;
use std::path::Path;

use fathom_measure::sampler::Fault;
use fathom_measure::{Clock, Sampler, Work};
use fathom_record::{Host, NoModel, Origin, Params, Prediction, Remedy};

use super::child::{fork, refused};
use super::raw_call::system_call;
use crate::uarch;
use fathom_metric::order::earlier;
use fathom_metric::sum::{Sum, Term};
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

/// os.vdso.clock_gettime.
pub struct ClockGettime;

static ABOUT: About = About {
    id: "os.vdso.clock_gettime",
    title: "asking for the time (vDSO)",
    timed: "one clock_gettime of the C library, as a program calls it: the procedure, the vDSO's \
            code behind it, the counter it reads and the conversion to seconds and nanoseconds",
    not_timed: "a system call: none is made, which is checked; looking the vDSO up, which the C \
                library does when a program starts",
    model: "monotonic: (RDTSCP + conversion) cycles ÷ core frequency + two procedure calls, \
            cpu.call{args=0}, where the clock source is the time stamp counter; realtime: as \
            monotonic, ± 15 %; monotonic_coarse: an order, at most monotonic, for it reads no \
            counter",
    source: "Linux lib/vdso/gettimeofday.c, do_hres and do_coarse, and rdtsc_ordered in \
             arch/x86/include/asm/tsc.h: RDTSCP, then subtract, multiply, add and shift between \
             two loads of a sequence number; data/uarch.toml: rdtscp_cycles, \
             time_conversion_cycles",
    pitfalls: &[
        "with another clock source (hpet, acpi_pm, an unstable counter) the vDSO enters the kernel \
         and a number here would be a system call's: a child makes the same calls under a seccomp \
         filter that fails every system call, before and after the rounds, and where one was \
         made the case is unavailable",
        "a system call made by hand (syscall(SYS_clock_gettime), strace, some sanitizers and \
         emulators) does not pass here and costs an entry into the kernel",
        "the coarse clock moves only with the timer tick, 1 to 10 ms: it is cheap because it is \
         old",
        "RDTSCP waits until all earlier instructions are done: in a program with loads under way \
         the call also waits for them",
        "a hypervisor that intercepts the counter makes it a thousand times dearer: it shows here",
    ],
    parameters: &[Parameter {
        name: "clock",
        values: "monotonic, realtime, monotonic_coarse",
        meaning: "CLOCK_MONOTONIC · CLOCK_REALTIME · CLOCK_MONOTONIC_COARSE",
    }],
    needs: &["cpu.frequency", "cpu.call"],
    requires: "a kernel with seccomp filters, for the check",
    ..About::BASE
};

const MONOTONIC: &str = "monotonic";
/// Those that others are held against first.
const CLOCKS: [(&str, libc::clockid_t); 3] = [
    (MONOTONIC, libc::CLOCK_MONOTONIC),
    ("realtime", libc::CLOCK_REALTIME),
    ("monotonic_coarse", libc::CLOCK_MONOTONIC_COARSE),
];
/// A round of each and two children to check it.
const COST_NS: f64 = 9e6;
const CURRENT_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

impl Probe for ClockGettime {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        let case = |(name, _)| Case { params: Params::one("clock", name), cost_ns: COST_NS };
        CLOCKS.map(case).into()
    }

    fn predict(&self, case: &Case, host: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let monotonic = Params::one("clock", MONOTONIC);
        match case.params.text("clock") {
            Some(MONOTONIC) => by_counter(host, known),
            Some("realtime") => {
                let terms = [Term { times: 1.0, metric: ABOUT.id, params: monotonic }];
                let source = "the same procedure with another row of base times: Linux \
                              lib/vdso/gettimeofday.c, do_hres";
                let otherwise = "one of the two clocks takes another way through the vDSO";
                Sum { terms: &terms, tolerance: 0.15, source, otherwise }.predict(known)
            }
            _ => {
                let limit = earlier(ABOUT.id, &monotonic, known)?;
                let name = format!("{}{monotonic}", ABOUT.id);
                let source = "it copies the time of the last tick, and reads no counter: Linux \
                              lib/vdso/gettimeofday.c, do_coarse";
                Ok(Prediction::at_most(limit, &format!("≤ {name}"), source)
                    .with_input(&name, limit, Origin::this_run(&name))
                    .otherwise("the coarse clock enters the kernel, or the vDSO is not used"))
            }
        }
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let clocks: Vec<Option<libc::clockid_t>> = cases.iter().map(clock_of).collect();
        measure(&clocks, sampler, &mut without_kernel);
        Ok(())
    }
}

fn clock_of(case: &Case) -> Option<libc::clockid_t> {
    let name = case.params.text("clock")?;
    CLOCKS.iter().find(|(known, _)| *known == name).map(|(_, clock)| *clock)
}

/// What the hardware and two procedure calls owe.
fn by_counter(host: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
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
    Ok(Prediction::sum(hardware, 2.0 * call, 0.3, formula, &source)
        .with_input("RDTSCP cycles", counter.value, row.origin())
        .with_input("conversion cycles", conversion.value, row.origin())
        .with_input("frequency", hz, Origin::this_run("cpu.frequency"))
        .with_input("cpu.call{args=0}", call, Origin::this_run("cpu.call{args=0}"))
        .otherwise("the counter costs more or less here than on the bare core: a hypervisor"))
}

/// Times each clock that passes the look, and looks again afterwards.
fn measure(
    clocks: &[Option<libc::clockid_t>],
    sampler: &mut Sampler,
    look: &mut dyn FnMut(libc::clockid_t) -> Result<(), Fault>,
) {
    let (mut works, mut watches) = (Vec::new(), Vec::new());
    for (index, clock) in clocks.iter().enumerate() {
        let Some(clock) = *clock else {
            sampler.fault(index, Fault::Failed("no clock is known by that name".to_owned()));
            continue;
        };
        match look(clock).and_then(|()| Watch::begin(clock, sampler.clock())) {
            Ok(watch) => {
                works.push(Work::batched(index, move |iterations| repeat(clock, iterations)));
                watches.push((index, watch));
            }
            Err(fault) => sampler.fault(index, fault),
        }
    }
    sampler.run(works);
    for (index, watch) in watches {
        let (passed, detail) = watch.end(sampler.clock());
        sampler.check(index, "the clock moved as ours did", passed, detail);
        match look(watch.clock) {
            Ok(()) => sampler.check(index, "no system call", true, "before and after the rounds"),
            Err(fault) => sampler.fault(index, fault),
        }
    }
}

/// Calls that often, and returns how often the time was told.
fn repeat(clock: libc::clockid_t, iterations: u64) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    let mut told = 0;
    for _ in 0..iterations {
        // SAFETY: the pointer is to writable memory of the type the call fills.
        told += u64::from(unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } == 0);
    }
    told
}

/// The clock's time in nanoseconds.
fn read_ns(clock: libc::clockid_t) -> Result<i128, Fault> {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: as above, and an all-zero `timespec` is a valid one.
    let (result, time) =
        unsafe { (libc::clock_gettime(clock, time.as_mut_ptr()), time.assume_init()) };
    match result {
        0 => Ok(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)),
        _ => Err(Fault::system("clock_gettime", std::io::Error::last_os_error())),
    }
}

/// A clock's time between two stamps of ours, when the rounds began.
struct Watch {
    clock: libc::clockid_t,
    /// How far apart its values lie.
    step_ns: f64,
    before: u64,
    time_ns: i128,
    after: u64,
}

impl Watch {
    fn begin(clock: libc::clockid_t, ours: &Clock) -> Result<Self, Fault> {
        let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to writable memory of the type the call fills.
        if unsafe { libc::clock_getres(clock, &mut step) } != 0 {
            return Err(Fault::system("clock_getres", std::io::Error::last_os_error()));
        }
        let before = ours.start();
        let time_ns = read_ns(clock)?;
        let after = ours.stop();
        Ok(Self { clock, step_ns: step.tv_nsec as f64, before, time_ns, after })
    }

    /// Whether it went on as long as our clock did, within two of its steps and a hundredth: an
    /// answer that is never anything but the same is no time.
    fn end(&self, ours: &Clock) -> (bool, String) {
        let before = ours.start();
        let time_ns = match read_ns(self.clock) {
            Ok(time_ns) => time_ns,
            Err(fault) => return (false, fault.to_string()),
        };
        let after = ours.stop();
        let shortest_ns = ours.ns(self.after, before);
        let longest_ns = ours.ns(self.before, after);
        let gone_ns = (time_ns - self.time_ns) as f64;
        let slack_ns = 2.0 * self.step_ns + 0.01 * longest_ns;
        let passed =
            gone_ns >= 0.0 && (shortest_ns - slack_ns..=longest_ns + slack_ns).contains(&gone_ns);
        (passed, format!("{:.1} ms in {:.1} ms", gone_ns / 1e6, longest_ns / 1e6))
    }
}

/// Calls of the child.
const CHECKED_CALLS: u64 = 10_000;
/// What the filter answers every system call with: nothing that a clock fails with.
const FILTERED: i32 = libc::EXDEV;

/// How the child found it. It tells by its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// Every call was answered.
    Without = 7,
    /// A call met the filter.
    Entered = 8,
    /// No filter can be had.
    NoFilter = 9,
    /// The filter let a call pass.
    Blind = 10,
}

/// That the clock is told without entering the kernel; else why it is not measured.
fn without_kernel(clock: libc::clockid_t) -> Result<(), Fault> {
    // SAFETY: bare system calls, and one of the C library that POSIX calls async-signal-safe.
    let child = unsafe { fork(|| try_under_filter(clock) as i32) };
    let ended = child.map_err(|error| refused("fork", &error))?.wait()?;
    verdict(ended.status.code(), || std::fs::read_to_string(Path::new(CURRENT_SOURCE)).ok())
}

fn verdict(status: Option<i32>, source: impl Fn() -> Option<String>) -> Result<(), Fault> {
    let is = |finding: Finding| status == Some(finding as i32);
    if is(Finding::Without) {
        return Ok(());
    }
    if is(Finding::Entered) {
        let source = source().unwrap_or_else(|| "unknown".to_owned());
        let what = format!("the vDSO enters the kernel here: clock source {}", source.trim());
        return Err(Fault::unavailable(what, Remedy::ReadableClockSource));
    }
    if is(Finding::NoFilter) {
        let what = "that no system call is made cannot be checked: no seccomp filter can be set";
        return Err(Fault::unavailable(what, Remedy::kernel_with("CONFIG_SECCOMP_FILTER")));
    }
    Err(Fault::Failed(format!("the child that checks the vDSO left with status {status:?}")))
}

/// In the child: makes the calls under the filter.
fn try_under_filter(clock: libc::clockid_t) -> Finding {
    if !fail_every_system_call() {
        return Finding::NoFilter;
    }
    // SAFETY: takes no argument.
    if unsafe { system_call(libc::SYS_getppid, [0; 4]) } != -(FILTERED as isize) {
        return Finding::Blind;
    }
    match repeat(clock, CHECKED_CALLS) {
        CHECKED_CALLS => Finding::Without,
        _ => Finding::Entered,
    }
}

/// From now on only leaving is a system call that works.
fn fail_every_system_call() -> bool {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let skip_if = |number: i64, skip: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: skip,
        jf: 0,
        k: number as u32,
    };
    let mut filter = [
        // The call's number is the first word of what a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        skip_if(libc::SYS_exit_group, 2),
        skip_if(libc::SYS_exit, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | FILTERED as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let (yes, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: numbers, and a program that lives until the call returns; both bind this process
    // only, a child that leaves soon.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, none, none, none) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    }
}

#[cfg(test)]
mod tests;
