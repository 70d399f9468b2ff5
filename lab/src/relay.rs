//! A relay of packets between two network namespaces, which delays and loses them. A relay of
//! connections would answer connects itself.
//!
//! Each end is a TUN device: its packets have been segmented and have their checksums when the
//! relay reads them.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use fathom_measure::clock::monotonic_raw_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Unmet;

/// A packet may be as large as the largest MTU.
const PACKET_BYTES_MAX: usize = 64 << 10;
/// Packets that wait, as in a router: later ones are lost.
const QUEUE_MAX: usize = 10_000;
/// Delays that are logged.
const LOG_MAX: usize = 1 << 20;
const IDLE_NS: u64 = 50_000_000;

/// What the relay does with packets, and what it has done.
#[derive(Debug, Default)]
struct RelayShared {
    stops: AtomicBool,
    spins: AtomicBool,
    /// From 0 to 1, and from 1 to 0.
    delay_ns: [AtomicU64; 2],
    /// Of the packets from end 0; 0 for none.
    loses_one_in: AtomicU64,
    /// Longer packets are lost; 0 for no limit.
    bytes_max: AtomicU64,
    log: Mutex<Log>,
}

/// What the relay has done since [`Relay::reset`].
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Nanoseconds of each packet in the relay, by its direction.
    pub delays_ns: [Vec<u64>; 2],
    pub lost: u64,
}

impl Log {
    /// The median time of both directions together, in nanoseconds.
    pub fn round_trip_ns(&self) -> Option<u64> {
        let median = |delays: &Vec<u64>| {
            let mut sorted = delays.clone();
            sorted.sort_unstable();
            sorted.get(sorted.len() / 2).copied()
        };
        Some(median(&self.delays_ns[0])? + median(&self.delays_ns[1])?)
    }
}

/// The thread that passes packets. Dropping it ends the connection of both namespaces.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<RelayShared>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Makes a device of this name in each namespace, and passes packets between them.
    ///
    /// # Errors
    /// Without root or TUN devices.
    pub fn start(namespaces: &[String; 2], device: &str) -> Result<Self, Unmet> {
        let ends = [tun(&namespaces[0], device)?, tun(&namespaces[1], device)?];
        let shared = Arc::new(RelayShared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("relay".to_owned());
        let thread = thread.spawn(move || pass(&ends, &of_thread));
        let thread = Some(thread.map_err(|error| Unmet(format!("start a thread: {error}")))?);
        Ok(Self { shared, thread })
    }

    /// Delays each packet, half of this in each direction.
    pub fn delay(&self, round_trip_ns: u64) {
        self.shared.delay_ns.iter().for_each(|delay| delay.store(round_trip_ns / 2, Relaxed));
    }

    /// Polls without sleeping, so that no wake-up of the relay is in a round trip, and keeps all
    /// CPUs awake: to wake one takes longer after a longer sleep. It runs where a CPU would be
    /// idle: not while both ends are busy.
    pub fn spin(&self) {
        self.shared.spins.store(true, Relaxed);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        // The relay is one of them.
        for _ in 1..cpus {
            let shared = Arc::clone(&self.shared);
            std::thread::spawn(move || {
                become_idle();
                while !shared.stops.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
    }

    /// Loses one in `count` of the packets from end 0; 0 for none.
    pub fn lose(&self, count: u64) {
        self.shared.loses_one_in.store(count, Relaxed);
    }

    /// Loses all packets of more bytes, without a word; 0 for no limit.
    pub fn lose_longer(&self, bytes: u64) {
        self.shared.bytes_max.store(bytes, Relaxed);
    }

    /// What was done since the last reset.
    pub fn log(&self) -> Log {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn reset(&self) {
        *self.shared.log.lock().unwrap_or_else(PoisonError::into_inner) = Log::default();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stops.store(true, Relaxed);
        // A panic of the thread was printed.
        self.thread.take().map(JoinHandle::join);
    }
}

/// A packet on its way.
struct Packet {
    bytes: Vec<u8>,
    arrived_ns: u64,
    due_ns: u64,
}

fn pass(ends: &[OwnedFd; 2], shared: &RelayShared) {
    // Without slack, timers end when they are due.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut queues: [VecDeque<Packet>; 2] = Default::default();
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let mut count = 0_u64;
    let mut is_idle = false;
    while !shared.stops.load(Relaxed) {
        let spins = shared.spins.load(Relaxed);
        if spins && !is_idle {
            become_idle();
            is_idle = true;
        }
        let now_ns = monotonic_raw_ns();
        let next_ns = queues.iter().filter_map(VecDeque::front).map(|packet| packet.due_ns).min();
        let wait_ns = next_ns.map_or(IDLE_NS, |due| due.saturating_sub(now_ns)).min(IDLE_NS);
        let wait_ns = if spins { 0 } else { wait_ns };
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait_ns as i64 };
        let mut waits = ends.each_ref().map(|end| PollFd::new(end, PollFlags::IN));
        // Interrupted: nothing is readable.
        let _ = poll(&mut waits, Some(&timeout));
        for (from, end) in ends.iter().enumerate() {
            // A device without packets ends the loop, and so does one that is down.
            while let Ok(read) = read(end, &mut buffer) {
                let arrived_ns = monotonic_raw_ns();
                count += u64::from(from == 0);
                if is_lost(shared, from, (count, read)) || queues[from].len() >= QUEUE_MAX {
                    shared.log.lock().unwrap_or_else(PoisonError::into_inner).lost += 1;
                    continue;
                }
                let due_ns = arrived_ns + shared.delay_ns[from].load(Relaxed);
                let bytes = buffer[..read].to_vec();
                queues[from].push_back(Packet { bytes, arrived_ns, due_ns });
            }
        }
        for (from, queue) in queues.iter_mut().enumerate() {
            while queue.front().is_some_and(|packet| packet.due_ns <= monotonic_raw_ns())
                && let Some(packet) = queue.pop_front()
            {
                // A full device loses it, as a network does.
                let _ = write(&ends[1 - from], &packet.bytes);
                let delay_ns = monotonic_raw_ns() - packet.arrived_ns;
                let mut log = shared.log.lock().unwrap_or_else(PoisonError::into_inner);
                let delays = &mut log.delays_ns[from];
                if delays.len() < LOG_MAX {
                    delays.push(delay_ns);
                }
            }
        }
    }
}

/// Lets any other thread take the CPU of this one.
#[expect(unsafe_code, reason = "no library function sets a scheduling policy")]
fn become_idle() {
    // SAFETY: all zeroes are a parameter with priority 0.
    let parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the parameter outlives the call, which reads it. 0: this thread.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) };
    debug_assert_eq!(outcome, 0, "every thread may become idle");
}

fn is_lost(shared: &RelayShared, from: usize, (count, bytes): (u64, usize)) -> bool {
    let [one_in, most] = [&shared.loses_one_in, &shared.bytes_max].map(|it| it.load(Relaxed));
    (from == 0 && one_in > 0 && count % one_in == 0) || (most > 0 && bytes as u64 > most)
}

/// A new TUN device in a namespace. It exists as long as its descriptor.
fn tun(namespace: &str, device: &str) -> Result<OwnedFd, Unmet> {
    let (path, device) = (format!("/run/netns/{namespace}"), device.to_owned());
    // In a thread of its own, which stays in the namespace.
    let thread = std::thread::spawn(move || -> io::Result<OwnedFd> {
        let file = File::open(path)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let tun = open("/dev/net/tun", flags, Mode::empty())?;
        attach(&tun, &device)?;
        Ok(tun)
    });
    let made = thread.join().unwrap_or_else(|_| Err(Errno::INVAL.into()));
    made.map_err(|error| Unmet(format!("make a TUN device: {error}")))
}

#[expect(unsafe_code, reason = "no library function attaches a TUN device")]
fn attach(tun: &OwnedFd, device: &str) -> io::Result<()> {
    // SAFETY: all zeroes are an empty request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = device.as_bytes().iter().take(libc::IFNAMSIZ - 1);
    request.ifr_name.iter_mut().zip(name).for_each(|(to, from)| *to = *from as libc::c_char);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request outlives the call, which reads and writes one.
    match unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
