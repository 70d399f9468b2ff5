//! os.signal.install and os.signal.deliver: handlers for signals.

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{Host, NoModel, Params, Prediction};

use super::handler::{Guarded, Handler, KernelAction, runs};
use super::raw_call::RawCall;
use super::syscall::tried;
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

/// os.signal.install.
pub struct SignalInstall;
/// os.signal.deliver.
pub struct SignalDeliver;

static INSTALL: About = About {
    id: "os.signal.install",
    title: "installing a signal handler",
    timed: "one rt_sigaction by the bare instruction: the handler that is in place already is \
            installed again, for a signal that is not pending",
    not_timed: "what a C library does around it: it copies the action into the kernel's form and \
                back",
    model: "a bound: ≥ os.syscall{call=getppid}",
    source: "bound: Linux kernel/signal.c, do_sigaction: 32 bytes from the program and a change \
             under a lock; the work is that of lmbench's lat_sig install (McVoy & Staelin, USENIX \
             1996)",
    pitfalls: &[
        "the result of each call is compared; after the rounds the kernel is asked what it keeps, \
         and a signal is sent to see that the handler runs",
        "a handler that ignores a pending signal makes the kernel flush it: here none is pending",
    ],
    needs: &["os.syscall"],
    ..About::BASE
};

static DELIVER: About = About {
    id: "os.signal.deliver",
    title: "signal to oneself, and back",
    timed: "by=kill: a tgkill of the own thread by the bare instruction, the handler, which only \
            counts, and its return by rt_sigreturn. by=fault: a write to a page that may only be \
            read, until the handler has stepped over it and the program goes on behind the write",
    not_timed: "installing the handler; sending to another thread or process, which is woken; the \
                C library's raise, which blocks all signals meanwhile",
    model: "a bound: ≥ 2 × os.syscall{call=getppid}: the kernel is entered twice, by tgkill or \
            the fault and by rt_sigreturn, and builds and takes down a frame of the registers \
            between",
    source: "bound: Linux kernel/signal.c, get_signal, and arch/x86/kernel/signal.c, \
             setup_rt_frame and rt_sigreturn; arch/x86/mm/fault.c, bad_area_access_error. The work \
             is that of lmbench's lat_sig catch and prot",
    pitfalls: &[
        "kill of the process may be delivered to another of its threads, and later: the thread \
         signals itself, so that the handler has run when the call returns, and every run is \
         counted",
        "lmbench's handler for prot returns to the write, which faults again: here the handler \
         moves the program counter behind it, so that one write is one fault",
        "lmbench subtracts: from catch the cost of a kill that sends nothing, from prot that of \
         catch. What is left is no time that any program sees: here nothing is subtracted",
        "the frame holds all vector registers of the CPU (2.5 KiB with AVX-512, saved and \
         restored), so the cost differs between CPUs of one speed",
        "a handler that takes over SIGSEGV hides real crashes: this one passes every other \
         address on to the handler that was there, and puts it back afterwards",
        "in a sandbox that handles signals itself (gVisor, Wine, some debuggers) it costs many \
         times more",
    ],
    parameters: &[Parameter {
        name: "by",
        values: "kill, fault",
        meaning: "SIGUSR1 sent to the own thread · SIGSEGV for a write to a read-only page",
    }],
    needs: &["os.syscall"],
    ..About::BASE
};

const SIGNAL: libc::c_int = libc::SIGUSR1;
const KILL: &str = "kill";
const WAYS: [&str; 2] = [KILL, "fault"];

impl Probe for SignalInstall {
    fn about(&self) -> &'static About {
        &INSTALL
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        vec![Case::usual(Params::none())]
    }

    fn predict(&self, _: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let source = "the same entry and exit, and an action that is copied between them: Linux \
                      kernel/signal.c, do_sigaction";
        let order = Order { factor: 1.0, metric: "os.syscall", source };
        order.claim(&Params::one("call", "getppid"), known)
    }

    fn visit(&self, _: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let _handler = Handler::counting(SIGNAL)?;
        let action = KernelAction::of(SIGNAL)?;
        // SAFETY: the action lives until the last call, and is the one in place.
        let call = unsafe { RawCall::new(libc::SYS_rt_sigaction, action.arguments(), 0) };
        let call = tried("rt_sigaction", call, call.repeat(1), None)?;
        sampler.run(vec![Work::batched(0, move |calls| call.repeat(calls))]);
        let in_place = action.is_in_place()?;
        sampler.check(0, "the handler is in place", in_place, "by the kernel's own word");
        let ran = to_oneself()?.deliver(1);
        sampler.check(0, "a signal runs it", ran == 1, format!("{ran} runs of 1"));
        Ok(())
    }
}

impl Probe for SignalDeliver {
    fn about(&self) -> &'static About {
        &DELIVER
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        WAYS.map(|by| Case::usual(Params::one("by", by))).into()
    }

    fn predict(&self, _: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let source = "the kernel is entered twice, for the signal and to return from its handler, \
                      and does more than for getppid both times";
        let order = Order { factor: 2.0, metric: "os.syscall", source };
        order.claim(&Params::one("call", "getppid"), known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        for (index, case) in cases.iter().enumerate() {
            let outcome = match case.params.text("by") {
                Some(KILL) => Handler::counting(SIGNAL).and_then(|_handler| {
                    let signal = to_oneself()?;
                    sampler.run(vec![Work::batched(index, |times| signal.deliver(times))]);
                    Ok(())
                }),
                _ => Guarded::page().map(|page| {
                    sampler.run(vec![Work::batched(index, |times| page.write(times))]);
                }),
            };
            if let Err(fault) = outcome {
                sampler.fault(index, fault);
            }
        }
        Ok(())
    }
}

/// A signal of this thread to itself.
struct ToOneself(RawCall);

/// The signal, tried once. Its handler must be in place.
fn to_oneself() -> Result<ToOneself, Fault> {
    // SAFETY: takes no argument.
    let thread = unsafe { libc::gettid() };
    let arguments = [std::process::id() as usize, thread as usize, SIGNAL as usize, 0];
    // SAFETY: numbers, and a signal whose handler only counts.
    let call = unsafe { RawCall::new(libc::SYS_tgkill, arguments, 0) };
    Ok(ToOneself(tried("tgkill", call, call.repeat(1), None)?))
}

impl ToOneself {
    /// Sends it that often, and returns how often its handler ran; never, if a call failed.
    fn deliver(&self, times: u64) -> u64 {
        let before = runs();
        let sent = self.0.repeat(times);
        if sent == times { runs() - before } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn the_handler_is_in_place_and_runs() {
        let taken = smoke::run(&SignalInstall);
        let sample = taken[0].1.as_ref().expect("no sandbox forbids a handler");
        assert_eq!(sample.checks.len(), 2);
    }

    #[test]
    fn signals_and_faults_are_delivered() {
        let taken = smoke::run(&SignalDeliver);
        assert!(taken.iter().all(|(_, sample)| sample.is_ok()), "no sandbox forbids a signal");
    }

    #[test]
    fn a_signal_whose_handler_does_not_run_is_not_counted() {
        let _alone = smoke::alone();
        let _handler = Handler::counting(SIGNAL).unwrap();
        let signal = to_oneself().unwrap();
        assert_eq!(signal.deliver(100), 100);
        // SAFETY: a signal that is ignored harms nobody; the handler's end puts back what was.
        unsafe { libc::signal(SIGNAL, libc::SIG_IGN) };
        assert_eq!(signal.deliver(100), 0);
    }

    #[test]
    fn a_signal_that_cannot_be_sent_is_not_counted() {
        let _alone = smoke::alone();
        let _handler = Handler::counting(SIGNAL).unwrap();
        let arguments = [std::process::id() as usize, 0, SIGNAL as usize, 0];
        // SAFETY: numbers; there is no thread 0.
        let call = unsafe { RawCall::new(libc::SYS_tgkill, arguments, 0) };
        assert_eq!(ToOneself(call).deliver(10), 0);
    }

    #[test]
    fn a_delivery_is_two_entries_and_installing_is_one() {
        let getppid = Params::one("call", "getppid");
        let records = [smoke::record("os.syscall", &getppid, 100.0, 1.0)];
        let known = Inputs::new(&records);
        let limit = |probe: &dyn Probe| {
            let cases = probe.cases(&Host::default(), &Sizes::default());
            probe.predict(&cases[0], &Host::default(), &known).unwrap().low
        };
        assert_eq!((limit(&SignalInstall), limit(&SignalDeliver)), (Some(100.0), Some(200.0)));
    }
}
