//! The sending end: a process of its own for each block, with a far end of its own.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

use fathom_far::files::{ANSWER, FileSum, Received, WorkOrder, WorkReport, WorkRound, page_faults};
use fathom_far::tcp_info::TcpInfo;
use fathom_far::{
    Channel, Far, FarError, ProcessProgram, ProtocolWork, Remote, SetUp, Token, WAIT_NS, connect,
};
use fathom_measure::affinity;
use fathom_measure::clock::{monotonic_raw_ns, process_cpu_ns};
use fathom_measure::disturbance::VisitCounters;
use fathom_paths::{Page, Sending, Waiter, receive_exact, send, send_all};
use fathom_record::{Disturbance, FarEnd};
use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::set::{Set, SetFile};

/// Milliseconds in which the kernel says of sends without a copy whether they were ones.
const NOTIFIED_MS: u32 = 1_000;
/// The last bytes are in the buffers of the sockets, and the link may be slow.
const LAST_NS: u64 = 60_000_000_000;
/// Checking sums reads everything once.
const SUMS_NS: u64 = 120_000_000_000;

/// A service on another host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SenderPlace {
    pub address: SocketAddr,
    pub token_file: Option<PathBuf>,
    pub bind: Option<IpAddr>,
}

/// What a sending end gets, as JSON on standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SenderOrders {
    /// Of the far end; `None`: on this host.
    pub remote: Option<SenderPlace>,
    /// Of this process and of the far end.
    pub cpus: [u32; 2],
    /// Where a far end on this host writes.
    pub folder: PathBuf,
    pub congestion: Option<String>,
    /// Look at the pages behind mappings.
    pub pages: bool,
    pub sets: Vec<Set>,
    /// In this order, with their numbers.
    pub cells: Vec<(usize, Cell)>,
}

/// A line of its answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderLine {
    Done(Box<SenderDone>),
    /// The cell whose transfer failed, and why. The process ends then.
    Failed {
        cell: usize,
        failure: SenderFailure,
        /// What disturbed this end until then.
        disturbance: Box<Disturbance>,
    },
    /// There can be no transfer at all.
    Broken {
        why: String,
        /// The other end does not answer.
        is_gone: bool,
    },
    /// After the last cell: what disturbed each end.
    End(Box<(Disturbance, FarEnd)>),
}

/// Why a cell has no transfer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SenderFailure {
    pub why: String,
    /// An end lacks what the cell needs, or forbids it.
    pub is_missing: bool,
}

impl SenderLine {
    fn broken(error: &FarError) -> Self {
        let is_gone = match error {
            FarError::System { call, .. } => call.starts_with("connect"),
            // It was ours when the command began: it ended during the handshake.
            FarError::TimedOut(_) | FarError::OtherProgram(_) => true,
            error => error.is_closed(),
        };
        Self::Broken { why: error.to_string(), is_gone }
    }
}

/// A transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderDone {
    pub cell: usize,
    /// From the first connect to the last write of the receiver.
    pub ns: f64,
    pub near: SenderUsage,
    pub far: SenderUsage,
    /// Calls without a copy: made, really without one, and copied after all.
    pub zero_copy: Option<[u64; 3]>,
    /// Of the last connection, before and after.
    pub tcp: Option<[TcpInfo; 2]>,
    pub congestion: String,
    /// What arrived wrong.
    pub wrong: Option<String>,
}

/// What an end used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderUsage {
    pub cpu_ns: u64,
    pub faults: u64,
    /// The page behind its first mapping.
    pub page: Option<Page>,
}

/// The process: takes its orders, and prints a line for each cell.
pub fn run() -> std::io::Result<()> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    let orders: SenderOrders = serde_json::from_str(&text)?;
    let mut out = std::io::stdout().lock();
    let mut print = |line: &SenderLine| -> std::io::Result<()> {
        serde_json::to_writer(&mut out, line)?;
        out.write_all(b"\n")?;
        out.flush()
    };
    let (far, mut ends) = match open(&orders) {
        Ok(both) => both,
        Err(error) => return print(&SenderLine::broken(&error)),
    };
    let mut counters = VisitCounters::open(orders.cpus[0]);
    counters.mark();
    for (number, cell) in &orders.cells {
        let done = ends.transfer(cell, &orders.sets[cell.set]);
        match done {
            Ok(done) => print(&SenderLine::Done(Box::new(SenderDone { cell: *number, ..done })))?,
            Err(error) => {
                let failure =
                    SenderFailure { why: error.to_string(), is_missing: error.is_missing() };
                let disturbance = Box::new(counters.since_mark());
                return print(&SenderLine::Failed { cell: *number, failure, disturbance });
            }
        }
    }
    let disturbance = counters.since_mark();
    drop(ends);
    match far.finish() {
        Ok(outcome) => print(&SenderLine::End(Box::new((disturbance, outcome.far)))),
        Err(error) => print(&SenderLine::broken(&error)),
    }
}

/// Both ends of a block.
struct SenderEnds {
    orders: Channel,
    address: SocketAddr,
    remote: Option<SenderPlace>,
    congestion: Option<String>,
    pages: bool,
}

fn open(orders: &SenderOrders) -> Result<(Far, SenderEnds), FarError> {
    let of_cpu = |error: rustix::io::Errno| FarError::System { call: "pin", error: error.into() };
    affinity::pin(orders.cpus[0]).map_err(of_cpu)?;
    let mut far = match &orders.remote {
        None => {
            let program = ProcessProgram::this();
            let program = program.map_err(|error| FarError::System { call: "program", error })?;
            Far::start_in(&program, Some(&orders.folder))?
        }
        Some(SenderPlace { address, token_file, bind }) => {
            let token = token_file.as_deref().map(Token::read).transpose()?;
            Far::connect(&Remote { address: *address, token, bind: *bind })?
        }
    };
    let (work, congestion) = (ProtocolWork::Files, orders.congestion.clone());
    let data = far.begin(SetUp { work, cpu: orders.cpus[1], congestion: congestion.clone() })?;
    let data = data.into_iter().next().ok_or(FarError::Unexpected("no data connection"))?;
    let address = far.listens_at().ok_or(FarError::Unexpected("no listening port"))?;
    let remote = orders.remote.clone();
    let (pages, data) = (orders.pages, Channel::new(data.into()));
    Ok((far, SenderEnds { orders: data, address, remote, congestion, pages }))
}

fn io(call: &'static str) -> impl Fn(std::io::Error) -> FarError {
    move |error| FarError::System { call, error }
}

impl SenderEnds {
    fn connect(&self, sending: &Sending, waiter: &Waiter) -> Result<TcpStream, FarError> {
        let bind = self.remote.as_ref().and_then(|place| place.bind);
        let socket = connect(self.address, bind, self.congestion.as_deref(), "connect")?;
        sending.prepare(socket.as_fd(), waiter).map_err(io("set a connection up"))?;
        Ok(socket)
    }

    fn report(&mut self, wait_ns: u64) -> Result<WorkReport, FarError> {
        match self.orders.json(wait_ns)? {
            WorkReport::Failed { text, is_missing } => {
                let text = format!("the receiver: {text}");
                Err(if is_missing { FarError::Refused(text) } else { FarError::Reported(text) })
            }
            report => Ok(report),
        }
    }

    /// Sends the files of a set. Nothing is under way before or after it.
    fn transfer(&mut self, cell: &Cell, set: &Set) -> Result<SenderDone, FarError> {
        // A larger buffer is not used, and touching it would evict caches.
        let largest = u32::try_from(set.largest().max(1)).unwrap_or(u32::MAX);
        let round = WorkRound {
            path: cell.receive,
            size: cell.receive_size().min(largest),
            io: cell.io,
            persistent: cell.persistent,
            ack: cell.ack,
            files: set.files.len() as u32,
            bytes: set.bytes(),
            page: self.pages,
        };
        let mut sending = Sending::new(cell.send, cell.send_size().min(largest) as usize)?;
        sending.watch_page(self.pages);
        let waiter = Waiter::new(cell.io, Duration::from_nanos(WAIT_NS));
        let waiter = waiter.map_err(io("block SIGIO"))?;
        self.orders.send(&WorkOrder::Receive(round))?;
        let answer = self.report(WAIT_NS).map_err(|error| match error {
            FarError::Reported(text) => FarError::Refused(text),
            error => error,
        });
        let WorkReport::Ready = answer? else {
            return Err(FarError::Unexpected("expected ready"));
        };
        let (cpu_before, faults_before) = (process_cpu_ns(), page_faults());
        let begun_ns = monotonic_raw_ns();
        let (sockets, first) = match self.send_all(cell, set, &mut sending, &waiter) {
            // A failed file of the receiver is a broken connection here, and its reason comes now.
            Err(error) if error.is_closed() => {
                self.report(LAST_NS)?;
                return Err(error);
            }
            sent => sent?,
        };
        let used = [process_cpu_ns() - cpu_before, page_faults() - faults_before];
        let WorkReport::Received(received) = self.report(LAST_NS)? else {
            return Err(FarError::Unexpected("expected the end of the files"));
        };
        let arrived_ns = monotonic_raw_ns();
        // Both ends of one host have one clock.
        let done_ns = if self.remote.is_none() { received.done_ns } else { arrived_ns };
        let last = sockets.last().and_then(TcpInfo::from_socket);
        let congestion = sockets.last().and_then(|socket| {
            rustix::net::sockopt::tcp_congestion(socket).ok().map(|name| name.to_string())
        });
        let mut notified = fathom_paths::Notified::default();
        for socket in &sockets {
            let found = sending.settle(socket.as_fd(), NOTIFIED_MS)?;
            notified.sent += found.sent;
            notified.zero_copy += found.zero_copy;
            notified.copied += found.copied;
        }
        drop(sockets);
        self.orders.send(&WorkOrder::Sums)?;
        let WorkReport::Sums { files } = self.report(SUMS_NS)? else {
            return Err(FarError::Unexpected("expected sums"));
        };
        let [cpu_ns, faults] = used;
        let Received { cpu_ns: far_cpu_ns, faults: far_faults, page, .. } = received;
        Ok(SenderDone {
            cell: 0,
            ns: done_ns.saturating_sub(begun_ns) as f64,
            near: SenderUsage { cpu_ns, faults, page: sending.page() },
            far: SenderUsage { cpu_ns: far_cpu_ns, faults: far_faults, page },
            zero_copy: (notified.sent > 0).then_some([
                notified.sent,
                notified.zero_copy,
                notified.copied,
            ]),
            tcp: first.zip(last).map(|(first, last)| [first, last]),
            congestion: congestion.unwrap_or_default(),
            wrong: difference(&set.files, &files),
        })
    }

    /// The timed part of the sending end. Returns the connections, whose closing is not timed, and
    /// the counters of the last one at its beginning.
    fn send_all(
        &self,
        cell: &Cell,
        set: &Set,
        sending: &mut Sending,
        waiter: &Waiter,
    ) -> Result<(Vec<TcpStream>, Option<TcpInfo>), FarError> {
        let mut sockets: Vec<TcpStream> = Vec::new();
        let mut first = None;
        for SetFile { path, sum } in &set.files {
            if sockets.is_empty() || !cell.persistent {
                sockets.push(self.connect(sending, waiter)?);
                first = sockets.last().filter(|_| cell.persistent).and_then(TcpInfo::from_socket);
            }
            let Some(socket) = sockets.last() else { continue };
            let file = File::open(path).map_err(io("open a file"))?;
            if cell.persistent {
                send_all(&sum.bytes.to_le_bytes(), socket.as_fd(), waiter)?;
            }
            send(sending, (file, sum.bytes), socket.as_fd(), waiter)?;
            if !cell.persistent {
                socket.shutdown(Shutdown::Write).map_err(io("shutdown"))?;
            }
            if cell.ack {
                let mut answer = [0];
                receive_exact(&mut answer, socket.as_fd(), waiter)?;
                if answer != ANSWER {
                    return Err(FarError::Unexpected("expected the answer of a file"));
                }
            }
        }
        Ok((sockets, first))
    }
}

/// The first file that arrived wrong.
fn difference(sent: &[SetFile], received: &[FileSum]) -> Option<String> {
    if sent.len() != received.len() {
        return Some(format!("{} files arrived, of {}", received.len(), sent.len()));
    }
    let wrong = sent.iter().zip(received).position(|(sent, found)| sent.sum != *found)?;
    let (sent, found) = (sent[wrong].sum, received[wrong]);
    Some(format!(
        "file {}: {} bytes, XOR-32 {:08x}, position sum {:016x}; sent were {}, {:08x}, {:016x}",
        wrong + 1,
        found.bytes,
        found.xor,
        found.position,
        sent.bytes,
        sent.xor,
        sent.position
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_that_is_lost_at_any_moment_is_gone() {
        let is_gone =
            |error| matches!(SenderLine::broken(&error), SenderLine::Broken { is_gone: true, .. });
        let in_handshake = FarError::OtherProgram("it does not answer by HTTP".to_owned());
        assert!([FarError::Closed, FarError::TimedOut(1.0), in_handshake].into_iter().all(is_gone));
        assert!(!is_gone(FarError::TokenWrong));
    }

    #[test]
    fn any_difference_is_found() {
        let sum = FileSum { bytes: 4, xor: 1, position: 1 };
        let sent = [SetFile { path: PathBuf::new(), sum }, SetFile { path: PathBuf::new(), sum }];
        assert_eq!(difference(&sent, &[sum, sum]), None);
        assert_eq!(difference(&sent, &[sum]).unwrap(), "1 files arrived, of 2");
        for other in
            [FileSum { bytes: 5, ..sum }, FileSum { xor: 2, ..sum }, FileSum { position: 2, ..sum }]
        {
            assert!(difference(&sent, &[sum, other]).unwrap().starts_with("file 2: "));
        }
    }
}
