//! Threads of the worker that work in step, each pinned to a core of its own.
//!
//! The worker's own thread is one of them, or only calls the time. Between batches the others spin
//! on a line of their own, so that all begin within some hundred nanoseconds of each other; a batch
//! ends when the last has done its part. Between parts they sleep. Memory is touched first by the
//! thread that uses it: a part is made, and ends, in its thread.

use fathom_record::Remedy;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fathom_measure::sampler::Fault;
use fathom_measure::{affinity, clock};

/// No set-up of a part, and no batch, takes longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Looks at a line between two pauses. A hypervisor takes pauses that follow each other closely
/// for a spin lock, and takes the CPU away for a while.
const LOOKS: u32 = 64;
/// Number of the batch that is none: the part ends.
const LAST: u64 = u64::MAX;

/// What one thread does, batch by batch.
pub(crate) trait Part {
    /// Does it so many times, and says how often it did by its own count.
    fn work(&mut self, iterations: u64) -> u64;
    /// Ends it: whether its work was right, and what it found in words.
    ///
    /// # Errors
    /// Why that cannot be told.
    fn finish(self: Box<Self>) -> Result<Finding, Fault>;
}

/// Whether a part's own check passed, with the figures.
pub(crate) type Finding = (bool, String);
/// Makes a part in the thread that is to do it.
pub(crate) type Maker = Box<dyn FnOnce() -> Result<Box<dyn Part>, Fault> + Send>;

/// What the worker and one thread tell each other while batches run, on lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Post {
    /// Number of the batch that is to be done.
    ordered: Line,
    iterations: Line,
    /// Number of the batch that was done last.
    done: Line,
    /// Iterations done in it.
    did: Line,
}

#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// What a thread says between batches.
enum Answer {
    /// It runs where it should, under this number.
    Here(u32),
    /// Its part is made, or not.
    Ready(Result<(), Fault>),
    /// Its part has ended.
    Ended(Result<Finding, Fault>),
}

struct Member {
    cpu: u32,
    thread: u32,
    post: Arc<Post>,
    orders: Option<Sender<Maker>>,
    answers: Receiver<Answer>,
    life: Option<JoinHandle<()>>,
}

/// Threads that wait for parts. All of them have ended when this is gone.
pub(crate) struct Crew {
    members: Vec<Member>,
}

impl Crew {
    /// A thread on each of these CPUs, none of which is the caller's own.
    ///
    /// # Errors
    /// `Unavailable` where a CPU is not there or not allowed.
    pub(crate) fn on(cpus: &[u32]) -> Result<Self, Fault> {
        let mut crew = Self { members: Vec::new() };
        for cpu in cpus {
            crew.members.push(Member::start(*cpu)?);
        }
        Ok(crew)
    }

    /// Number and CPU of each thread.
    pub(crate) fn threads(&self) -> Vec<(u32, u32)> {
        self.members.iter().map(|member| (member.thread, member.cpu)).collect()
    }

    /// Gives one part to each of the first threads, and one to the caller's own, and waits until
    /// all are made. The other threads go on sleeping.
    ///
    /// # Errors
    /// Why one of them could not be made.
    pub(crate) fn muster(
        &mut self,
        own: Option<Maker>,
        makers: Vec<Maker>,
    ) -> Result<Mustered<'_>, Fault> {
        assert!(makers.len() <= self.members.len(), "more parts than threads");
        let asked: Vec<&Member> =
            self.members.iter().zip(makers).map(|(member, maker)| member.ask(maker)).collect();
        let own = own.map(|make| make()).transpose();
        // All are waited for, also when one of them says no: none is left with a part.
        let mut outcome = Ok(());
        let mut members = Vec::new();
        for member in asked {
            match member.answer() {
                Ok(Answer::Ready(Ok(()))) => members.push(member),
                Ok(Answer::Ready(Err(fault))) | Err(fault) => outcome = outcome.and(Err(fault)),
                Ok(_) => outcome = outcome.and(Err(member.lost())),
            }
        }
        let mut mustered = Mustered { members, own: None, batch: 0 };
        mustered.own = own?;
        outcome.map(|()| mustered)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            member.orders = None;
            member.post.ordered.0.store(LAST, Ordering::Release);
        }
        for life in self.members.iter_mut().filter_map(|member| member.life.take()) {
            // A thread that panicked has told by falling silent.
            let _ = life.join();
        }
    }
}

impl Member {
    fn start(cpu: u32) -> Result<Self, Fault> {
        let post = Arc::new(Post::default());
        let (orders, received) = channel();
        let (tell, answers) = channel();
        let theirs = Arc::clone(&post);
        let life = move || live(cpu, &theirs, &received, &tell);
        let thread = std::thread::Builder::new().name(format!("crew {cpu}")).spawn(life);
        let life = thread.map_err(|error| Fault::system("pthread_create", error))?;
        let (orders, life) = (Some(orders), Some(life));
        let mut member = Self { cpu, thread: 0, post, orders, answers, life };
        match member.answer() {
            Ok(Answer::Here(thread)) => member.thread = thread,
            Ok(Answer::Ready(Err(fault))) | Err(fault) => {
                Crew { members: vec![member] };
                return Err(fault);
            }
            Ok(_) => return Err(member.lost()),
        }
        Ok(member)
    }

    /// Sends a part. Whether it came is told by the answer.
    fn ask(&self, maker: Maker) -> &Self {
        self.post.ordered.0.store(0, Ordering::Relaxed);
        self.post.done.0.store(0, Ordering::Relaxed);
        let _ = self.orders.as_ref().map(|orders| orders.send(maker));
        self
    }

    fn answer(&self) -> Result<Answer, Fault> {
        self.answers.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => Fault::Failed(format!(
                "the thread on CPU {} said nothing for {} s",
                self.cpu,
                PATIENCE.as_secs()
            )),
            RecvTimeoutError::Disconnected => self.lost(),
        })
    }

    fn lost(&self) -> Fault {
        Fault::Failed(format!("the thread on CPU {} has died", self.cpu))
    }
}

/// The life of a thread: one part after another, until no more are sent.
fn live(cpu: u32, post: &Post, orders: &Receiver<Maker>, tell: &Sender<Answer>) {
    let _silence = Silence(post);
    if let Err(error) = affinity::pin(cpu) {
        let what = format!("pin a thread to CPU {cpu}: {error}");
        let fault = Fault::unavailable(what, Remedy::AllowCpu { cpu });
        let _ = tell.send(Answer::Ready(Err(fault)));
        return;
    }
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let _ = tell.send(Answer::Here(thread));
    while let Ok(make) = orders.recv() {
        let mut part = match make() {
            Ok(part) => part,
            Err(fault) => {
                let _ = tell.send(Answer::Ready(Err(fault)));
                continue;
            }
        };
        let _ = tell.send(Answer::Ready(Ok(())));
        serve(post, part.as_mut());
        let ended = part.finish().map(|finding| in_place(finding, cpu));
        let _ = tell.send(Answer::Ended(ended));
    }
}

/// A finding, which fails where the thread is not where it was pinned.
fn in_place((passed, text): Finding, cpu: u32) -> Finding {
    // SAFETY: takes no argument and no lock.
    let now = unsafe { libc::sched_getcpu() };
    match u32::try_from(now) == Ok(cpu) {
        true => (passed, text),
        false => (false, format!("a thread of CPU {cpu} runs on {now}")),
    }
}

/// Does the batches of one part as they are ordered.
fn serve(post: &Post, part: &mut dyn Part) {
    let mut last = 0;
    loop {
        let mut looks = 0;
        let batch = loop {
            let batch = post.ordered.0.load(Ordering::Acquire);
            if batch != last {
                break batch;
            }
            pause(&mut looks);
        };
        if batch == LAST {
            return;
        }
        let did = part.work(post.iterations.0.load(Ordering::Relaxed));
        post.did.0.store(did, Ordering::Relaxed);
        post.done.0.store(batch, Ordering::Release);
        last = batch;
    }
}

fn pause(looks: &mut u32) {
    *looks += 1;
    if looks.is_multiple_of(LOOKS) {
        std::hint::spin_loop();
    }
}

/// Ends the wait for a thread that died in its part.
struct Silence<'p>(&'p Post);

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        self.0.did.0.store(0, Ordering::Relaxed);
        self.0.done.0.store(LAST, Ordering::Release);
    }
}

/// Threads that have their parts and spin until a batch is ordered.
pub(crate) struct Mustered<'c> {
    members: Vec<&'c Member>,
    own: Option<Box<dyn Part>>,
    batch: u64,
}

impl Mustered<'_> {
    /// One batch by all at the same time. Returns the least that one of them did.
    pub(crate) fn work(&mut self, iterations: u64) -> u64 {
        self.order(iterations);
        let own = self.own.as_mut().map(|part| part.work(iterations));
        self.least().into_iter().chain(own).min().unwrap_or(0)
    }

    /// One batch of a single iteration by the others, and beside it what the caller does itself,
    /// which also tells them to end. Returns what the caller did, and nothing where one of the
    /// others did nothing.
    pub(crate) fn beside(&mut self, own: impl FnOnce() -> u64) -> u64 {
        self.order(1);
        let did = own();
        if self.least() == Some(0) { 0 } else { did }
    }

    fn order(&mut self, iterations: u64) {
        self.batch += 1;
        for Member { post, .. } in &self.members {
            post.iterations.0.store(iterations, Ordering::Relaxed);
            post.ordered.0.store(self.batch, Ordering::Release);
        }
    }

    /// Waits for the others, and says what the one did that did least.
    fn least(&self) -> Option<u64> {
        self.members.iter().map(|member| member.post.await_batch(self.batch)).min()
    }

    /// Ends all parts and tells what each found, the caller's own last.
    pub(crate) fn dismiss(mut self) -> Vec<Result<Finding, Fault>> {
        let mut findings = self.end();
        findings.extend(self.own.take().map(Part::finish));
        findings
    }

    /// Ends the parts of the others, who go back to sleep.
    fn end(&mut self) -> Vec<Result<Finding, Fault>> {
        for Member { post, .. } in &self.members {
            post.ordered.0.store(LAST, Ordering::Release);
        }
        let ended = |member: &Member| match member.answer()? {
            Answer::Ended(finding) => finding,
            _ => Err(member.lost()),
        };
        std::mem::take(&mut self.members).into_iter().map(ended).collect()
    }
}

impl Drop for Mustered<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Post {
    /// What was done in a batch; nothing where its thread died, or did not end in time.
    fn await_batch(&self, batch: u64) -> u64 {
        let mut looks = 0;
        let mut deadline = None;
        loop {
            match self.done.0.load(Ordering::Acquire) {
                LAST => return 0,
                done if done == batch => return self.did.0.load(Ordering::Relaxed),
                _ => pause(&mut looks),
            }
            // The clock is read rarely, and first long after a batch should have ended.
            if looks == u32::MAX >> 8 {
                looks = 0;
                let now = clock::monotonic_raw_ns();
                if now > *deadline.get_or_insert(now + PATIENCE.as_nanos() as u64) {
                    return 0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
