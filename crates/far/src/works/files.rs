//! Files that the near end sends, by rounds of one set each.
//!
//! The data connection carries JSON lines: an [`Order`], and its [`Report`]. The files of a round
//! come over connections of their own, from the address of the near end. They are written without
//! a name, so that nothing is left of them, and removed when the next round begins.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fathom_fileio::XorSum;
use fathom_fileio::scratch::Scratch;
use fathom_measure::clock::{monotonic_raw_ns, process_cpu_ns};
use fathom_paths::device::{Presence, Role, presence};
use fathom_paths::{
    Io, Page, PathError, ReceivePath, Receiving, SIZE_MAX, Waiter, receive, receive_exact, send_all,
};
use serde::{Deserialize, Serialize};

use crate::protocol::WAIT_NS;
use crate::protocol::channel::Channel;
use crate::protocol::error::FarError;
use crate::works::accept;
use crate::works::reserve::Reserve;

/// Files of a round.
pub const FILES_MAX: u32 = 500;
/// Bytes of a round: a far end lives for 10 minutes only.
pub const BYTES_MAX: u64 = 64 << 30;
/// Connections that wait to be accepted: the near end may be far ahead.
pub(crate) const BACKLOG: i32 = 512;
/// Sent after each file of a round with answers.
pub const ANSWER: [u8; 1] = [b'a'];
/// Before each file over a connection that is kept: its length, little endian.
pub const LENGTH_BYTES: usize = size_of::<u64>();

/// By the near end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum WorkOrder {
    /// Files of a round.
    Receive(WorkRound),
    /// The sums of the files that were received.
    Sums,
    /// Whether there is a kernel device to receive by.
    Device,
}

/// How to receive a set of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkRound {
    pub path: ReceivePath,
    /// Of the buffer or window, if the path has one.
    pub size: u32,
    pub io: Io,
    /// All files come over one connection, each after its length. Else each has a connection of its
    /// own, which ends with it.
    pub persistent: bool,
    /// Answer after each file.
    pub ack: bool,
    pub files: u32,
    /// Of all files together; more are refused.
    pub bytes: u64,
    /// Look at the page behind the first mapping.
    pub page: bool,
}

impl WorkRound {
    fn check(&self) -> Result<(), FarError> {
        let is_known = (1..=SIZE_MAX).contains(&(self.size as usize))
            && (1..=FILES_MAX).contains(&self.files)
            && self.bytes <= BYTES_MAX;
        match is_known {
            true => Ok(()),
            false => Err(FarError::Unexpected("expected 1 to 500 files of at most 64 GiB")),
        }
    }
}

/// By the far end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum WorkReport {
    /// Connections are accepted.
    Ready,
    Received(Received),
    Sums {
        files: Vec<FileSum>,
    },
    Device {
        presence: Presence,
    },
    /// The round failed. There may be others.
    Failed {
        text: String,
        /// What it needs is missing there, or forbidden.
        #[serde(default)]
        is_missing: bool,
    },
}

/// What the far end measured of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// The end of the last write, by CLOCK_MONOTONIC_RAW.
    pub done_ns: u64,
    pub cpu_ns: u64,
    /// Page faults.
    pub faults: u64,
    /// The page behind the first mapping.
    pub page: Option<Page>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    pub bytes: u64,
    pub xor: u32,
    pub position: u64,
}

impl From<XorSum> for FileSum {
    fn from(XorSum { xor, position, bytes }: XorSum) -> Self {
        Self { bytes, xor, position }
    }
}

/// Serves rounds until the near end closes the data connection. Returns the bytes received.
pub(crate) fn serve(
    data: &TcpStream,
    listener: &TcpListener,
    folder: &Path,
    progress: &AtomicU64,
) -> Result<u64, FarError> {
    let control = data.try_clone().map_err(FarError::system("dup"))?;
    let mut orders = Channel::new(control.into());
    let (mut all, mut files) = (0, Vec::new());
    loop {
        // The watchdog ends a far end whose near end does nothing.
        let report = match orders.json(u64::MAX) {
            Ok(WorkOrder::Sums) => WorkReport::Sums { files: sums(&files)? },
            Ok(WorkOrder::Device) => WorkReport::Device { presence: presence(Role::Receives) },
            Ok(WorkOrder::Receive(round)) => {
                round.check()?;
                files.clear();
                let end = WorkEnd::new(round, folder).and_then(|end| {
                    orders.send(&WorkReport::Ready)?;
                    Ok(end)
                });
                let done = end.and_then(|end| end.receive(data, listener, folder, progress));
                match done {
                    Ok((received, found)) => {
                        files = found;
                        WorkReport::Received(received)
                    }
                    Err(FarError::Closed) => return Ok(all),
                    Err(error) => WorkReport::Failed {
                        text: error.to_string(),
                        is_missing: error.is_missing(),
                    },
                }
            }
            Err(FarError::Closed) => return Ok(all),
            Err(error) => return Err(error),
        };
        if let WorkReport::Received(_) = report {
            let bytes = files.iter().filter_map(|file| file.file().metadata().ok());
            all += bytes.map(|it| it.len()).sum::<u64>();
        }
        orders.send(&report)?;
    }
}

/// What a round needs, made before it begins.
struct WorkEnd {
    round: WorkRound,
    waiter: Waiter,
    receiving: Receiving,
    reserve: Reserve,
}

impl WorkEnd {
    fn new(round: WorkRound, folder: &Path) -> Result<Self, FarError> {
        let reserve = Reserve::new(folder, round.bytes)?;
        let waiter = Waiter::new(round.io, Duration::from_nanos(WAIT_NS));
        let waiter = waiter.map_err(FarError::system("block SIGIO"))?;
        let mut receiving = Receiving::new(round.path, round.size as usize)?;
        receiving.watch_page(round.page);
        Ok(Self { round, waiter, receiving, reserve })
    }

    /// Receives the files of the round.
    fn receive(
        self,
        data: &TcpStream,
        listener: &TcpListener,
        folder: &Path,
        progress: &AtomicU64,
    ) -> Result<(Received, Vec<Scratch>), FarError> {
        let Self { round, waiter, mut receiving, reserve: _reserve } = self;
        let near = data.peer_addr().map_err(FarError::system("getpeername"))?.ip();
        let (mut files, mut rest, mut kept) = (Vec::new(), round.bytes, None);
        let mut done = Vec::new();
        let (cpu_ns, faults) = (process_cpu_ns(), page_faults());
        for _ in 0..round.files {
            let connection = match kept.take() {
                Some(connection) => connection,
                None => {
                    let next = accept::next(data, listener, near)?.ok_or(FarError::Closed)?;
                    let set_up = receiving.prepare(next.as_fd(), &waiter);
                    set_up.map_err(FarError::system("set a connection up"))?;
                    next
                }
            };
            let socket = connection.as_fd();
            let mut length = None;
            if round.persistent {
                let mut word = [0; LENGTH_BYTES];
                receive_exact(&mut word, socket, &waiter)?;
                let bytes = u64::from_le_bytes(word);
                if bytes > rest {
                    return Err(FarError::Path(PathError::TooLong { most: round.bytes }));
                }
                length = Some(bytes);
            }
            let scratch = Scratch::new(folder).map_err(FarError::errno("create a file"))?;
            let file = scratch.file().try_clone().map_err(FarError::system("dup"))?;
            let both = (socket, &waiter);
            let received = receive(&mut receiving, (file, length, rest), both, progress);
            rest -= received?;
            if round.ack {
                send_all(&ANSWER, socket, &waiter)?;
            }
            files.push(scratch);
            // Closing is not timed.
            if round.persistent {
                kept = Some(connection);
            } else {
                done.push(connection);
            }
        }
        let done_ns = monotonic_raw_ns();
        let cpu_ns = process_cpu_ns() - cpu_ns;
        let faults = page_faults() - faults;
        Ok((Received { done_ns, cpu_ns, faults, page: receiving.page() }, files))
    }
}

/// Page faults of this process. The first of a window in a new file counts as major, without I/O.
pub fn page_faults() -> u64 {
    // SAFETY: all zeroes are a value of the structure, which outlives the call.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    (usage.ru_minflt + usage.ru_majflt) as u64
}

fn sums(files: &[Scratch]) -> Result<Vec<FileSum>, FarError> {
    files.iter().map(|scratch| sum(scratch.file()).map(FileSum::from)).collect()
}

const PIECE: usize = 1 << 20;

/// The sums of a whole file.
///
/// # Errors
/// If it cannot be read.
pub fn sum(file: &File) -> Result<XorSum, FarError> {
    use std::os::unix::fs::FileExt as _;
    let (mut sum, mut piece) = (XorSum::default(), vec![0; PIECE]);
    loop {
        match file.read_at(&mut piece, sum.bytes).map_err(FarError::system("read"))? {
            0 => return Ok(sum),
            count => sum.add(sum.bytes, &piece[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::net::{Shutdown, TcpListener};
    use std::os::fd::{AsRawFd as _, OwnedFd};
    use std::path::PathBuf;
    use std::thread::JoinHandle;

    use rustix::mount;

    use super::*;

    /// A far end in a thread, and what the near end has of it.
    struct Ends<T = tempfile::TempDir> {
        orders: Channel,
        connect: Box<dyn Fn() -> TcpStream>,
        far: JoinHandle<Result<u64, FarError>>,
        folder: T,
    }

    fn ends() -> Ends {
        let folder = tempfile::tempdir().unwrap();
        ends_in(folder.path().to_owned(), folder)
    }

    fn ends_in<T>(path: PathBuf, folder: T) -> Ends<T> {
        let control = TcpListener::bind("127.0.0.1:0").unwrap();
        let data = TcpStream::connect(control.local_addr().unwrap()).unwrap();
        let (far_data, _) = control.accept().unwrap();
        let listener = accept::open([127, 0, 0, 1].into(), BACKLOG).unwrap();
        let address = listener.local_addr().unwrap();
        let far =
            std::thread::spawn(move || serve(&far_data, &listener, &path, &AtomicU64::new(0)));
        let connect = Box::new(move || TcpStream::connect(address).unwrap());
        Ends { orders: Channel::new(data.into()), connect, far, folder }
    }

    const ROUND: WorkRound = WorkRound {
        path: ReceivePath::Copy,
        size: 4096,
        io: Io::Blocking,
        persistent: false,
        ack: false,
        files: 2,
        bytes: 100,
        page: false,
    };

    fn report(orders: &mut Channel) -> WorkReport {
        orders.json(WAIT_NS).unwrap()
    }

    #[test]
    fn files_of_rounds_are_received_and_leave_nothing() {
        let mut ends = ends();
        for persistent in [false, true] {
            let contents = [b"one".as_slice(), b"the other"];
            ends.orders.send(&WorkOrder::Receive(WorkRound { persistent, ..ROUND })).unwrap();
            assert_eq!(report(&mut ends.orders), WorkReport::Ready);
            let mut kept = (ends.connect)();
            for (number, content) in contents.into_iter().enumerate() {
                if persistent {
                    kept.write_all(&(content.len() as u64).to_le_bytes()).unwrap();
                } else if number > 0 {
                    kept = (ends.connect)();
                }
                kept.write_all(content).unwrap();
                if !persistent {
                    kept.shutdown(Shutdown::Write).unwrap();
                }
            }
            let found = report(&mut ends.orders);
            assert!(matches!(found, WorkReport::Received(it) if it.done_ns > 0), "{found:?}");
            ends.orders.send(&WorkOrder::Sums).unwrap();
            let files = contents.map(|content| XorSum::over(content).into()).to_vec();
            assert_eq!(report(&mut ends.orders), WorkReport::Sums { files });
            assert_eq!(fs::read_dir(ends.folder.path()).unwrap().count(), 0, "no name");
        }
        drop(ends.orders);
        assert_eq!(ends.far.join().unwrap().unwrap(), 2 * 12);
    }

    #[test]
    fn more_than_announced_is_refused_and_the_next_round_goes_on() {
        let mut ends = ends();
        for persistent in [true, false] {
            ends.orders
                .send(&WorkOrder::Receive(WorkRound { persistent, files: 1, ..ROUND }))
                .unwrap();
            assert_eq!(report(&mut ends.orders), WorkReport::Ready);
            let mut connection = (ends.connect)();
            let sent = if persistent { 101_u64.to_le_bytes().to_vec() } else { vec![7; 101] };
            connection.write_all(&sent).unwrap();
            let WorkReport::Failed { text, .. } = report(&mut ends.orders) else {
                panic!("accepted")
            };
            assert!(text.contains("100 bytes"), "{text}");
        }
        for round in [WorkRound { files: 501, ..ROUND }, WorkRound { size: 0, ..ROUND }] {
            assert!(round.check().is_err(), "{round:?}");
        }
        ends.orders.send(&WorkOrder::Receive(WorkRound { bytes: u64::MAX, ..ROUND })).unwrap();
        assert!(matches!(ends.far.join().unwrap(), Err(FarError::Unexpected(_))));
    }

    #[test]
    fn near_end_that_goes_away_ends_the_round() {
        let mut ends = ends();
        ends.orders.send(&WorkOrder::Receive(ROUND)).unwrap();
        assert_eq!(report(&mut ends.orders), WorkReport::Ready);
        drop(ends.orders);
        assert_eq!(ends.far.join().unwrap().unwrap(), 0);
    }

    /// A disk of 8 MiB, which goes with its descriptor; `None` without root.
    fn small_disk() -> Option<(PathBuf, OwnedFd)> {
        let made = mount::fsopen("tmpfs", mount::FsOpenFlags::FSOPEN_CLOEXEC).and_then(|new| {
            mount::fsconfig_set_string(&new, "size", "8m")?;
            mount::fsconfig_create(&new)?;
            let flags = mount::FsMountFlags::FSMOUNT_CLOEXEC;
            mount::fsmount(&new, flags, mount::MountAttrFlags::empty())
        });
        let folder = made.ok()?;
        Some((format!("/proc/self/fd/{}", folder.as_raw_fd()).into(), folder))
    }

    const MIB: usize = 1 << 20;

    #[test]
    fn parallel_rounds_share_one_reserve() {
        let Some((path, folder)) = small_disk() else {
            // Returning silently would count as passed.
            return writeln!(std::io::stderr(), "skipped: a disk of its own needs root").unwrap();
        };
        let large = WorkOrder::Receive(WorkRound { files: 1, bytes: 3 * MIB as u64, ..ROUND });
        let (mut first, mut second) = (ends_in(path.clone(), ()), ends_in(path, ()));
        first.orders.send(&large).unwrap();
        assert_eq!(report(&mut first.orders), WorkReport::Ready);
        second.orders.send(&large).unwrap();
        let others =
            "3145728 bytes and 3145728 bytes of other rounds exceed half of the free space";
        assert!(failure(&mut second.orders).contains(others));
        let small = WorkOrder::Receive(WorkRound { bytes: MIB as u64, ..ROUND });
        second.orders.send(&small).unwrap();
        assert_eq!(report(&mut second.orders), WorkReport::Ready, "there is room for it");
        // The end of a round frees what it has not received.
        drop(first.orders);
        first.far.join().unwrap().unwrap();
        drop(second.orders);
        second.far.join().unwrap().unwrap();
        let mut third = ends_in(format!("/proc/self/fd/{}", folder.as_raw_fd()).into(), folder);
        third.orders.send(&large).unwrap();
        assert_eq!(report(&mut third.orders), WorkReport::Ready);
    }

    fn failure(orders: &mut Channel) -> String {
        match report(orders) {
            WorkReport::Failed { text, .. } => text,
            other => panic!("{other:?}"),
        }
    }
}
