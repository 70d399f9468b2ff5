//! A team of pinned threads that run batches at the same time.
//!
//! The worker's own thread is a member, or only starts the batches. Between batches the others poll
//! a cache line of their own, so that all start within some hundred nanoseconds; a batch ends with
//! its last member. Between tasks they sleep. A task is created, run and checked in its own thread,
//! so that first touch places its memory on the right NUMA node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fathom_measure::clock;

use crate::prelude::*;

/// For the setup of a task, and for a batch.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A hypervisor takes closely spaced PAUSE instructions for a spin lock and deschedules the virtual
/// CPU (pause-loop exiting): pause rarely.
const POLLS_PER_PAUSE: u32 = 64;
/// The batch number that ends a task.
const END: u64 = u64::MAX;

/// The work of one thread.
pub(crate) trait TeamTask {
    /// Runs a batch. Returns the iterations done by the task's own count.
    fn run(&mut self, iterations: u64) -> u64;
    /// Verifies the work after the last batch.
    fn finish(self: Box<Self>) -> Result<CheckResult>;
}

/// Whether the task's own check passed, with its figures.
pub(crate) type CheckResult = (bool, String);
/// Creates a task in the thread that runs it.
pub(crate) type TaskFactory = Box<dyn FnOnce() -> Result<Box<dyn TeamTask>> + Send>;

/// Shared by the worker and one thread. Each value is written by one side and polled by the other:
/// a cache line each avoids false sharing.
#[derive(Default)]
struct ThreadTeamMailbox {
    /// Number of the batch to run.
    requested: OwnLine,
    iterations: OwnLine,
    /// Number of the last completed batch.
    completed: OwnLine,
    /// Iterations done in it.
    done: OwnLine,
}

/// 128 bytes, because the adjacent-line prefetcher of Intel cores fetches lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct OwnLine(AtomicU64);

/// A thread's message between batches.
enum ThreadTeamReply {
    /// With its thread id.
    Pinned(u32),
    Ready,
    Finished(CheckResult),
}

struct ThreadTeamMember {
    cpu: u32,
    thread: u32,
    mailbox: Arc<ThreadTeamMailbox>,
    tasks: Option<Sender<TaskFactory>>,
    replies: Receiver<Result<ThreadTeamReply>>,
    handle: Option<JoinHandle<()>>,
}

/// Idle threads. Dropping the team joins them.
pub(crate) struct ThreadTeam {
    members: Vec<ThreadTeamMember>,
}

impl ThreadTeam {
    /// One thread on each of these CPUs, none of which is the caller's own.
    ///
    /// # Errors
    /// `Unavailable` where a CPU does not exist or is not allowed.
    pub(crate) fn pinned_to(cpus: &[u32]) -> Result<Self> {
        let members: Result<_> = cpus.iter().map(|cpu| ThreadTeamMember::start(*cpu)).collect();
        Ok(Self { members: members? })
    }

    /// Thread id and CPU of each member.
    pub(crate) fn threads(&self) -> Vec<(u32, u32)> {
        self.members.iter().map(|member| (member.thread, member.cpu)).collect()
    }

    /// Creates one task in each of the first threads and, with `own`, one in the caller's thread.
    pub(crate) fn start(
        &mut self,
        own: Option<TaskFactory>,
        factories: Vec<TaskFactory>,
    ) -> Result<RunningTeam<'_>> {
        assert!(factories.len() <= self.members.len(), "more tasks than threads");
        let pairs = self.members.iter().zip(factories);
        let started: Vec<&ThreadTeamMember> =
            pairs.map(|(member, factory)| member.send(factory)).collect();
        let own = own.map(|create| create()).transpose();
        // Wait for every thread, also after an error: none may be left with a task.
        let mut outcome = Ok(());
        let mut team = RunningTeam { members: Vec::new(), own: None, batch: 0 };
        for member in started {
            match member.reply() {
                Ok(_) => team.members.push(member),
                Err(fault) => outcome = outcome.and(Err(fault)),
            }
        }
        team.own = own?;
        outcome.map(|()| team)
    }
}

impl ThreadTeamMember {
    fn start(cpu: u32) -> Result<Self> {
        let mailbox = Arc::new(ThreadTeamMailbox::default());
        let (tasks, received) = channel();
        let (reply, replies) = channel();
        let shared = Arc::clone(&mailbox);
        let main = move || thread_main(cpu, &shared, &received, &reply);
        let handle = std::thread::Builder::new().name(format!("team {cpu}")).spawn(main);
        let handle = Some(handle.map_err(|error| SamplerFault::system("pthread_create", error))?);
        let mut member = Self { cpu, thread: 0, mailbox, tasks: Some(tasks), replies, handle };
        if let ThreadTeamReply::Pinned(thread) = member.reply()? {
            member.thread = thread;
        }
        Ok(member)
    }

    /// Sends a task. A dead thread shows in [`Self::reply`].
    fn send(&self, factory: TaskFactory) -> &Self {
        // Relaxed: sending the task publishes both, and the thread polls only with a task.
        self.mailbox.requested.0.store(0, Ordering::Relaxed);
        self.mailbox.completed.0.store(0, Ordering::Relaxed);
        let _ = self.tasks.as_ref().map(|tasks| tasks.send(factory));
        self
    }

    fn reply(&self) -> Result<ThreadTeamReply> {
        self.replies.recv_timeout(TIMEOUT).unwrap_or_else(|error| {
            let what = match error {
                RecvTimeoutError::Timeout => "does not respond",
                RecvTimeoutError::Disconnected => "died",
            };
            Err(SamplerFault::Failed(format!("the thread on CPU {} {what}", self.cpu)))
        })
    }

    /// Waits for a batch. Returns the iterations done, 0 where the thread died or timed out.
    fn wait_for(&self, batch: u64) -> u64 {
        let mut polls = 0;
        let mut deadline = None;
        loop {
            match self.mailbox.completed.0.load(Ordering::Acquire) {
                END => return 0,
                done if done == batch => return self.mailbox.done.0.load(Ordering::Relaxed),
                _ => pause(&mut polls),
            }
            // Read the clock rarely, and first long after a batch should have ended.
            if polls == u32::MAX >> 8 {
                polls = 0;
                let now = clock::monotonic_raw_ns();
                if now > *deadline.get_or_insert(now + TIMEOUT.as_nanos() as u64) {
                    return 0;
                }
            }
        }
    }
}

impl Drop for ThreadTeamMember {
    fn drop(&mut self) {
        self.tasks = None;
        self.mailbox.requested.0.store(END, Ordering::Release);
        // A panic has been reported as a missing reply.
        let _ = self.handle.take().map(JoinHandle::join);
    }
}

/// Runs one task after another until the channel closes.
fn thread_main(
    cpu: u32,
    mailbox: &ThreadTeamMailbox,
    tasks: &Receiver<TaskFactory>,
    replies: &Sender<Result<ThreadTeamReply>>,
) {
    let _on_panic = ReleaseWaiter(mailbox);
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let pinned = affinity::pin(cpu).map(|()| ThreadTeamReply::Pinned(thread));
    let pinned = pinned.map_err(|error| SamplerFault::of_pin(cpu, error));
    let _ = replies.send(pinned);
    while let Ok(create) = tasks.recv() {
        let outcome = create().and_then(|mut task| {
            let _ = replies.send(Ok(ThreadTeamReply::Ready));
            run_batches(mailbox, task.as_mut());
            Ok(ThreadTeamReply::Finished(still_pinned(task.finish()?, cpu)))
        });
        let _ = replies.send(outcome);
    }
}

/// Fails the check where the thread no longer runs on its CPU.
fn still_pinned((passed, text): CheckResult, cpu: u32) -> CheckResult {
    // SAFETY: takes no argument and no lock.
    let now = unsafe { libc::sched_getcpu() };
    match u32::try_from(now) == Ok(cpu) {
        true => (passed, text),
        false => (false, format!("a thread of CPU {cpu} runs on {now}")),
    }
}

fn run_batches(mailbox: &ThreadTeamMailbox, task: &mut dyn TeamTask) {
    let (mut completed, mut polls) = (0, 0);
    loop {
        // Acquire: `iterations` was written before the request.
        let batch = mailbox.requested.0.load(Ordering::Acquire);
        if batch == completed {
            pause(&mut polls);
            continue;
        }
        if batch == END {
            return;
        }
        let done = task.run(mailbox.iterations.0.load(Ordering::Relaxed));
        mailbox.done.0.store(done, Ordering::Relaxed);
        // Release: publishes `done` with the completion.
        mailbox.completed.0.store(batch, Ordering::Release);
        (completed, polls) = (batch, 0);
    }
}

fn pause(polls: &mut u32) {
    *polls = polls.wrapping_add(1);
    if polls.is_multiple_of(POLLS_PER_PAUSE) {
        std::hint::spin_loop();
    }
}

/// Ends the wait for a thread that panics in its task.
struct ReleaseWaiter<'m>(&'m ThreadTeamMailbox);

impl Drop for ReleaseWaiter<'_> {
    fn drop(&mut self) {
        self.0.done.0.store(0, Ordering::Relaxed);
        self.0.completed.0.store(END, Ordering::Release);
    }
}

/// Threads with tasks, which poll for batches.
pub(crate) struct RunningTeam<'t> {
    members: Vec<&'t ThreadTeamMember>,
    own: Option<Box<dyn TeamTask>>,
    batch: u64,
}

impl RunningTeam<'_> {
    /// Runs one batch on all members. Returns the smallest number of iterations done.
    pub(crate) fn run(&mut self, iterations: u64) -> u64 {
        self.request(iterations);
        // After the request: the other members start first, and a batch ends with the last.
        let own = self.own.as_mut().map(|task| task.run(iterations));
        self.fewest().into_iter().chain(own).min().unwrap_or(0)
    }

    /// Runs a batch of one iteration on the other members while the caller executes `own`, which
    /// also signals them to end. Returns the result of `own`, or 0 where a member did nothing.
    pub(crate) fn run_beside(&mut self, own: impl FnOnce() -> u64) -> u64 {
        self.request(1);
        let done = own();
        if self.fewest() == Some(0) { 0 } else { done }
    }

    fn request(&mut self, iterations: u64) {
        self.batch += 1;
        for ThreadTeamMember { mailbox, .. } in &self.members {
            // Relaxed: the request below publishes it.
            mailbox.iterations.0.store(iterations, Ordering::Relaxed);
            mailbox.requested.0.store(self.batch, Ordering::Release);
        }
    }

    /// Waits for the other members. Returns the smallest number of iterations done.
    fn fewest(&self) -> Option<u64> {
        self.members.iter().map(|member| member.wait_for(self.batch)).min()
    }

    /// Ends all tasks and returns their check results, the caller's own last.
    pub(crate) fn finish(mut self) -> Vec<Result<CheckResult>> {
        let mut results = self.end();
        results.extend(self.own.take().map(TeamTask::finish));
        results
    }

    fn end(&mut self) -> Vec<Result<CheckResult>> {
        for ThreadTeamMember { mailbox, .. } in &self.members {
            mailbox.requested.0.store(END, Ordering::Release);
        }
        let result = |member: &ThreadTeamMember| match member.reply()? {
            ThreadTeamReply::Finished(result) => Ok(result),
            _ => {
                Err(SamplerFault::Failed(format!("no result of the thread on CPU {}", member.cpu)))
            }
        };
        std::mem::take(&mut self.members).into_iter().map(result).collect()
    }
}

impl Drop for RunningTeam<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
