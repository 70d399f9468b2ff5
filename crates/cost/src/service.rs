//! Following a service that runs already, for a time, without ending or stopping it.
//!
//! The tracer is a thread of its own: what it has attached to runs on without it when it ends,
//! however it ends. A call that waits is interrupted once by the attaching and once by the release:
//! the kernel begins it again, but for those that any stop ends with EINTR (epoll_wait).

use std::fs;
use std::io::Read as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Once, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use fathom_measure::clock::monotonic_raw_ns;
use libc::{c_int, pid_t};

use super::count::Counts;
use super::ptrace;
use super::trace::{Next, Trace, TraceError, executable, next_change, status_field};

/// How often a tracer that sees no stop is woken.
const LOOK: Duration = Duration::from_millis(5);
/// What does not stop within this time is released with the end of the tracer.
const RELEASE_NS: u64 = 2_000_000_000;

const ATTACHED: u8 = 0;
const COUNTING: u8 = 1;
const OVER: u8 = 2;

/// What was counted of a service.
#[derive(Clone, Debug, Default)]
pub struct ServiceCounts {
    pub counts: Counts,
    /// What it completed meanwhile.
    pub completed: u64,
    pub wall_ns: f64,
}

/// A service that is followed.
pub struct Counting {
    tracer: Option<JoinHandle<Result<ServiceCounts, String>>>,
    id: pid_t,
    phase: Arc<AtomicU8>,
}

impl Counting {
    /// Attaches to all threads of these processes. Of what they do, nothing is counted yet.
    ///
    /// # Errors
    /// Why that is not possible, and what to do.
    pub fn attach(
        processes: Vec<u32>,
        completed: impl Fn() -> u64 + Send + 'static,
    ) -> Result<Self, String> {
        catch_wakes();
        let phase = Arc::new(AtomicU8::new(ATTACHED));
        let (sender, receiver) = mpsc::channel();
        let shared = Arc::clone(&phase);
        let body = move || {
            let mut service = Service { completed: &completed, ..Service::new(&shared) };
            let attached = service.attach(&processes);
            let is_wanted = sender.send(attached.is_ok().then(own_thread)).is_ok();
            let counted = match attached {
                Ok(()) if is_wanted => service.follow(),
                Ok(()) => Err(lost()),
                Err(error) => Err(error),
            };
            service.release();
            counted.map_err(words)
        };
        let tracer = std::thread::Builder::new().name("cost".to_owned()).spawn(body);
        let tracer = tracer.map_err(|error| error.to_string())?;
        match receiver.recv() {
            Ok(Some(id)) => Ok(Self { tracer: Some(tracer), id, phase }),
            _ => Err(Self { tracer: Some(tracer), id: 0, phase }.join().err().unwrap_or_default()),
        }
    }

    /// Counts from here on.
    pub fn begin(&self) {
        self.phase.store(COUNTING, Ordering::Release);
        self.wake();
    }

    /// Ends the counting; the service runs on.
    ///
    /// # Errors
    /// If it could not be followed so far.
    pub fn end(mut self) -> Result<ServiceCounts, String> {
        self.join()
    }

    fn join(&mut self) -> Result<ServiceCounts, String> {
        self.phase.store(OVER, Ordering::Release);
        let Some(tracer) = self.tracer.take() else { return Err(words(lost())) };
        // A wake just before its wait is lost.
        while !tracer.is_finished() {
            self.wake();
            std::thread::park_timeout(LOOK);
        }
        tracer.join().unwrap_or_else(|_| Err(words(lost())))
    }

    fn wake(&self) {
        if self.id > 0 {
            // SAFETY: sends a signal that is caught to a thread of this process.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.id, libc::SIGURG) };
        }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if self.tracer.is_some() {
            let _ = self.join();
        }
    }
}

/// Whether a service can be followed; it is not stopped.
///
/// # Errors
/// Why not, and what to do.
pub fn check_service(processes: &[u32]) -> Result<(), String> {
    let foreign = processes.iter().find(|process| is_of_32_bits(**process));
    if let Some(process) = foreign {
        let program = executable(*process as pid_t).unwrap_or_else(|| format!("PID {process}"));
        return Err(format!(
            "{program} is a 32-bit program; only those of this program's architecture are counted"
        ));
    }
    let all = || processes.iter().map(|process| *process as pid_t);
    // What a thread has attached to is released when it ends.
    let tried = std::thread::scope(|scope| scope.spawn(|| all().try_for_each(seize)).join());
    match tried {
        Ok(Err(error)) => Err(words(error)),
        _ => Ok(()),
    }
}

fn words(error: TraceError) -> String {
    match error {
        TraceError::Refused(why) => why,
        TraceError::Wait(error) => error.to_string(),
        TraceError::TimedOut | TraceError::Stopped => "stopped".to_owned(),
    }
}

fn ended() -> TraceError {
    TraceError::Refused("it has ended".to_owned())
}

fn lost() -> TraceError {
    TraceError::Refused("the thread that follows it ended early".to_owned())
}

fn own_thread() -> pid_t {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// The signal that wakes the tracer would be ignored, without ending its wait.
fn catch_wakes() {
    static ONCE: Once = Once::new();
    extern "C" fn nothing(_: c_int) {}
    ONCE.call_once(|| {
        // SAFETY: the handler does nothing; a zeroed structure is valid, and no flag is set.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(c_int) as usize;
            libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut());
        }
    });
}

/// By the class of its ELF file.
fn is_of_32_bits(process: u32) -> bool {
    let mut head = [0; 5];
    let file = fs::File::open(format!("/proc/{process}/exe"));
    file.and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"\x7fELF\x01"
}

/// Attaches to a thread; one that has ended is none.
fn seize(thread: pid_t) -> Result<(), TraceError> {
    match ptrace::seize(thread, false) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) && !is_dead(thread) => {
            Err(TraceError::Refused(ptrace::obstacle(&error, Some(thread))))
        }
        _ => Ok(()),
    }
}

fn threads_of(process: pid_t) -> Vec<pid_t> {
    let all = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

struct Service<'s> {
    trace: Trace,
    phase: &'s AtomicU8,
    completed: &'s dyn Fn() -> u64,
}

impl<'s> Service<'s> {
    fn new(phase: &'s AtomicU8) -> Self {
        let trace = Trace::of_service(!rustix::process::geteuid().is_root());
        Self { trace, phase, completed: &|| 0 }
    }

    fn attach(&mut self, processes: &[u32]) -> Result<(), TraceError> {
        for process in processes.iter().map(|process| *process as pid_t) {
            // Threads start meanwhile: until a look finds no other one.
            loop {
                let known = |thread: &pid_t| self.trace.watch.is_known(*thread);
                let mut new = threads_of(process);
                // Those that a followed one creates are followed, and stop by themselves.
                new.retain(|thread| !known(thread) && !is_followed(*thread) && !is_dead(*thread));
                if new.is_empty() {
                    break;
                }
                for thread in new {
                    seize(thread)?;
                    self.trace.watch.attached(process, thread);
                    ptrace::interrupt(thread);
                }
            }
        }
        if self.trace.watch.is_empty() { Err(ended()) } else { Ok(()) }
    }

    fn follow(&mut self) -> Result<ServiceCounts, TraceError> {
        let now = || ((self.completed)(), monotonic_raw_ns());
        let mut begun = None;
        loop {
            match self.phase.load(Ordering::Acquire) {
                COUNTING if begun.is_none() && self.trace.watch.sees_all() => {
                    self.trace.watch.restart();
                    begun = Some(now());
                }
                OVER => break,
                _ => {}
            }
            match next_change(0) {
                Ok(Next::Change(change)) => self.trace.handle(change)?,
                Ok(_) => {}
                // No thread is left.
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                    return Err(ended());
                }
                Err(error) => return Err(TraceError::Wait(error)),
            }
        }
        let (completed, at_ns) = now();
        if self.trace.watch.threads().all(|(thread, _)| is_dead(thread)) {
            return Err(ended());
        }
        let Some((before, begun_ns)) = begun else {
            return Err(TraceError::Refused("it made no system call".to_owned()));
        };
        let counts = self.trace.watch.counted();
        let wall_ns = at_ns.saturating_sub(begun_ns) as f64;
        Ok(ServiceCounts { counts, completed: completed - before, wall_ns })
    }

    fn release(&mut self) {
        self.trace.release(monotonic_raw_ns() + RELEASE_NS);
    }
}

/// Whether the calling thread follows a thread.
fn is_followed(thread: pid_t) -> bool {
    status_field(thread, "TracerPid:") == Some(own_thread())
}

/// The first thread of a process may have ended before others.
fn is_dead(thread: pid_t) -> bool {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests;
