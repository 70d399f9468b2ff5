//! os.signal.install and os.signal.deliver: installing and running a signal handler.

use super::handler::{Handler, KernelAction, ReadOnlyPage, runs};
use super::raw_call::RawCall;
use super::syscall::verified;
use crate::prelude::*;

metric!(SignalInstall, INSTALL);
metric!(SignalDeliver, DELIVER);

static INSTALL: About = About {
    id: "os.signal.install",
    title: "installing a signal handler",
    timed: "one rt_sigaction by the inlined instruction, which reinstalls the current handler of a \
            signal that is not pending",
    not_timed: "the C library's wrapper, which converts the action to the kernel's format and back",
    model: "a bound: ≥ os.syscall{call=getppid}. No value: the cost of copying from and to user \
            space is not published",
    source: "bound: Linux kernel/signal.c, do_sigaction: copies 32 bytes and changes the action \
             under a lock; the same work as lmbench's lat_sig install (McVoy & Staelin, USENIX \
             1996)",
    pitfalls: &[
        "the result of each call is compared; after the rounds the installed action is read back, \
         and a signal is sent to verify that the handler runs",
        "ignoring a pending signal makes the kernel flush it: here none is pending",
    ],
    needs: &["os.syscall"],
    ..About::BASE
};

static DELIVER: About = About {
    id: "os.signal.deliver",
    title: "signal to oneself, and back",
    timed: "by=kill: tgkill of the own thread by the inlined instruction, the handler, which only \
            counts, and its return by rt_sigreturn. by=fault: a write to a read-only page, the \
            handler, which skips the write, and its return",
    not_timed: "installing the handler; signaling another thread or process, which must be woken; \
                the C library's raise, which also blocks all signals",
    model: "a bound: ≥ 2 × os.syscall{call=getppid}: two kernel entries, by tgkill or the fault \
            and by rt_sigreturn, plus building and removing a signal frame. No value: the cost of \
            a signal frame is known from this metric alone",
    source: "bound: Linux kernel/signal.c, get_signal, and arch/x86/kernel/signal.c, \
             setup_rt_frame and rt_sigreturn; arch/x86/mm/fault.c, bad_area_access_error. The same \
             work as lmbench's lat_sig catch and prot",
    pitfalls: &[
        "kill of a process may deliver to another thread, and later: here the thread signals \
         itself, so the handler has run when the call returns, and every run is counted",
        "lmbench's handler for prot returns to the write, which faults again: here the handler \
         advances the program counter, so one write is one fault",
        "lmbench subtracts the cost of a kill that sends nothing from catch, and that of catch \
         from prot: here nothing is subtracted, since programs pay the whole time",
        "the signal frame holds all vector registers (2.5 KiB with AVX-512, saved and restored), \
         so the cost differs between CPUs of equal speed",
        "a SIGSEGV handler can hide real crashes: this one passes faults at other addresses to the \
         previous handler, and restores it afterwards",
        "sandboxes that handle signals themselves (gVisor, Wine, some debuggers) make it many \
         times slower",
    ],
    parameters: &[Parameter::new(
        "by",
        "kill, fault",
        "SIGUSR1 to the own thread · SIGSEGV for a write to a read-only page",
    )],
    needs: &["os.syscall"],
    ..About::BASE
};

const SIGNAL: libc::c_int = libc::SIGUSR1;
const KILL: &str = "kill";
const WAYS: [&str; 2] = [KILL, "fault"];

impl Probe for SignalInstall {
    fn predict(&self, _: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let source = "the same entry and exit, plus copying two actions of 32 bytes: Linux \
                      kernel/signal.c, do_sigaction";
        at_least_getppid(1.0, source, known)
    }

    fn visit(&self, _: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let _handler = Handler::counting(SIGNAL)?;
        let action = KernelAction::for_signal(SIGNAL)?;
        // SAFETY: the action outlives the last call, and is already installed.
        let call = unsafe { RawCall::new(libc::SYS_rt_sigaction, action.arguments(), 0) };
        let call = verified("rt_sigaction", call, None)?;
        sampler.run(vec![SamplerWork::batched(0, move |calls| call.repeat(calls))]);
        let installed = action.is_installed()?;
        sampler.check(0, "handler installed", installed, "read back by rt_sigaction");
        let ran = SelfSignal::new()?.deliver(1);
        sampler.check(0, "handler runs", ran == 1, format!("{ran} runs of 1"));
        Ok(())
    }
}

impl Probe for SignalDeliver {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        WAYS.map(|by| ProbeCase::usual(Params::one("by", by))).into()
    }

    fn predict(&self, _: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let source = "two kernel entries, for the signal and for rt_sigreturn, each of which does \
                      more than getppid";
        at_least_getppid(2.0, source, known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        each(cases, sampler, |index, case, sampler| {
            if case.params.text("by") == Some(KILL) {
                let _handler = Handler::counting(SIGNAL)?;
                let signal = SelfSignal::new()?;
                sampler.run(vec![SamplerWork::batched(index, |times| signal.deliver(times))]);
            } else {
                let page = ReadOnlyPage::map()?;
                sampler.run(vec![SamplerWork::batched(index, |times| page.write(times))]);
            }
            Ok(())
        })
    }
}

/// A signal from this thread to itself.
struct SelfSignal(RawCall);

impl SelfSignal {
    /// Sends it once. Its handler must be installed.
    fn new() -> Result<Self> {
        // SAFETY: takes no argument.
        let thread = unsafe { libc::gettid() };
        let arguments = [std::process::id() as usize, thread as usize, SIGNAL as usize, 0];
        // SAFETY: numbers, and a signal whose handler only counts.
        let call = unsafe { RawCall::new(libc::SYS_tgkill, arguments, 0) };
        Ok(Self(verified("tgkill", call, None)?))
    }

    /// Sends it `times` times and returns how often its handler ran; 0 if a call failed.
    fn deliver(&self, times: u64) -> u64 {
        // The handler runs before tgkill returns, so that the difference counts these signals.
        let before = runs();
        let sent = self.0.repeat(times);
        if sent == times { runs() - before } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undelivered_signal_is_not_counted() {
        let _handler = Handler::counting(SIGNAL).unwrap();
        let signal = SelfSignal::new().unwrap();
        assert_eq!(signal.deliver(100), 100);
        let arguments = [std::process::id() as usize, 0, SIGNAL as usize, 0];
        // SAFETY: numbers; there is no thread 0.
        let failing = unsafe { RawCall::new(libc::SYS_tgkill, arguments, 0) };
        assert_eq!(SelfSignal(failing).deliver(10), 0);
        // SAFETY: ignoring a signal is safe; dropping the handler restores the action.
        unsafe { libc::signal(SIGNAL, libc::SIG_IGN) };
        assert_eq!(signal.deliver(100), 0);
    }
}
