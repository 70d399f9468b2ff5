//! Sending a response: its beginning in one call, then resumable steps over a socket and what is
//! left to send.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::LazyLock;

use rustix::fs::{Stat, fstat, sendfile};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::held::{Held, SMALL};
use crate::reply::{Date, Reply};
use crate::resident::{ResidentProbe, read_now};

/// Bytes that are checked and sent at a time: enough that a check costs little beside them.
pub(crate) const WINDOW: u64 = 2 << 20;
/// A check of the page cache is repeated after this time: a slow reader outlives it.
const CHECKED_NS: u64 = 100_000_000;

/// Sent by the source and by doses. Made at its first use: as a constant it is a quarter of a MiB
/// of the program.
static FILLING: LazyLock<Vec<u8>> = LazyLock::new(|| vec![FILLED_WITH; 256 << 10]);
const FILLED_WITH: u8 = b'.';

/// What every response of a connection needs to know of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// When the request was complete.
    pub(crate) begun_ns: u64,
    pub(crate) close: bool,
    /// The client may still send: its bytes are read and dropped before the close.
    pub(crate) linger: bool,
    pub(crate) is_head: bool,
    pub(crate) is_http_1_0: bool,
    /// Whether it counts as work: requests to the service itself do not.
    pub(crate) is_work: bool,
}

/// A response that did not leave in one call.
#[derive(Debug)]
pub(crate) struct SendResponse {
    pub(crate) exchange: Exchange,
    pub(crate) status: u16,
    /// The head, and a body that is not in a file.
    memory: Vec<u8>,
    memory_at: usize,
    part: Option<SendPart>,
    /// Bytes from memory that follow.
    filling: u64,
    head_bytes: u64,
    sent: u64,
    /// When the rate was last checked, and how much had arrived then.
    pub(crate) checked: (u64, u64),
    /// The share of `memory` in the budget, if it was large.
    held: Option<Held>,
}

/// What changes with the content of a file, as far as the kernel's clock can tell. Its change time
/// moves with a rename, too: a file that is replaced or deleted arrives as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) inode: u64,
    bytes: i64,
    modified: (i64, u64),
}

impl Stamp {
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        let modified = (stat.st_mtime, stat.st_mtime_nsec);
        Self { inode: stat.st_ino, bytes: stat.st_size, modified }
    }

    /// # Errors
    /// If the file has changed since.
    pub(crate) fn check(self, file: &File) -> Result<(), Errno> {
        if Self::from_stat(&fstat(file)?) == self { Ok(()) } else { Err(Errno::STALE) }
    }
}

/// Bytes of a file.
#[derive(Debug)]
pub(crate) struct SendPart {
    pub(crate) file: File,
    pub(crate) stamp: Stamp,
    pub(crate) at: u64,
    pub(crate) end: u64,
    /// Up to here it was in memory, at a time.
    loaded_to: u64,
    loaded_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendStep {
    /// Bytes handed to the kernel.
    Sent(usize),
    /// The socket's buffer is full.
    WouldBlock,
    /// The next bytes of the file are not in memory.
    NeedsLane,
    Done,
}

impl SendPart {
    pub(crate) fn new(file: File, stamp: Stamp, at: u64, end: u64) -> Self {
        Self { file, stamp, at, end, loaded_to: at, loaded_ns: 0 }
    }

    /// Copies a small part behind the head, if it is in memory.
    fn append(&self, out: &mut Vec<u8>) -> bool {
        let (at, bytes) = (out.len(), self.end - self.at);
        if bytes == 0 {
            return true;
        }
        if bytes > SMALL {
            return false;
        }
        out.resize(at + bytes as usize, 0);
        read_now(&self.file, &mut out[at..], self.at) == Ok(bytes as usize)
            && self.stamp.check(&self.file).is_ok()
    }

    /// The range that a lane is to read.
    pub(crate) fn window(&self) -> (u64, u64) {
        (self.at, self.end.min(self.at + WINDOW))
    }
}

/// A body. It fills the length of its head, unless the request was HEAD.
pub(crate) enum SendBody {
    Bytes(Vec<u8>, Option<Held>),
    /// Bytes from memory.
    Filling(u64),
    /// A part of a file, and bytes from memory behind it.
    File(SendPart, u64),
}

/// Begins a response: writes its head to `out`, and sends it with a small body in one call. Returns
/// the response with what is left of it, and how many bytes of the body were sent.
///
/// # Errors
/// If the connection is broken.
pub(crate) fn begin(
    out: &mut Vec<u8>,
    socket: BorrowedFd<'_>,
    exchange: Exchange,
    (reply, date): (&Reply<'_>, &Date),
    body: SendBody,
    now_ns: u64,
) -> Result<(SendResponse, u64), Errno> {
    reply.write(out, date);
    let head_bytes = out.len();
    let mut response = SendResponse {
        exchange,
        status: reply.status,
        memory: Vec::new(),
        memory_at: 0,
        part: None,
        filling: 0,
        head_bytes: head_bytes as u64,
        sent: 0,
        // The client is not charged for the wait of its request.
        checked: (now_ns, 0),
        held: None,
    };
    match body {
        SendBody::Bytes(..) | SendBody::Filling(_) if exchange.is_head => {}
        SendBody::Bytes(bytes, _) if bytes.len() as u64 <= SMALL => out.extend_from_slice(&bytes),
        // Of a large page there is no second copy.
        SendBody::Bytes(bytes, held) => {
            (response.memory, response.held) = (bytes, held);
            response.memory.splice(..0, out.iter().copied());
            return Ok((response, 0));
        }
        SendBody::Filling(bytes) if bytes <= SMALL => {
            out.resize(head_bytes + bytes as usize, FILLED_WITH);
        }
        SendBody::Filling(bytes) => (response.memory, response.filling) = (out.clone(), bytes),
        SendBody::File(part, _) if exchange.is_head => {
            response.part = Some(SendPart { at: part.end, ..part });
        }
        SendBody::File(part, filling) => {
            // Sent in steps where it is not copied.
            if filling > 0 || !part.append(out) {
                response.memory = out[..head_bytes].to_vec();
            }
            (response.part, response.filling) = (Some(part), filling);
        }
    }
    if !response.memory.is_empty() {
        return Ok((response, 0));
    }
    let sent = loop {
        match send(socket, out, SendFlags::NOSIGNAL) {
            Ok(sent) => break sent,
            Err(Errno::AGAIN) => break 0,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    };
    let of_body = response.count(sent as u64);
    // What is left of a file's bytes is read again, so that a slow reader keeps no copy.
    let end = if response.part.is_some() { head_bytes } else { out.len() };
    response.memory = out[sent.min(end)..end].to_vec();
    if let Some(part) = &mut response.part {
        part.at += of_body;
    }
    Ok((response, of_body))
}

impl SendResponse {
    /// Counts bytes handed to the kernel; returns how many of them were of the body.
    pub(crate) fn count(&mut self, bytes: u64) -> u64 {
        let of_body = |sent: u64| sent.saturating_sub(self.head_bytes);
        let before = of_body(self.sent);
        self.sent += bytes;
        of_body(self.sent) - before
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn part(&self) -> Option<&SendPart> {
        self.part.as_ref()
    }

    /// A lane has read the bytes up to here.
    pub(crate) fn set_loaded(&mut self, to: u64, now_ns: u64) {
        if let Some(part) = &mut self.part {
            (part.loaded_to, part.loaded_ns) = (to, now_ns);
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        let is_in_part = self.part.as_ref().is_some_and(|part| part.at < part.end);
        self.memory_at == self.memory.len() && !is_in_part && self.filling == 0
    }

    pub(crate) fn into_file(self) -> Option<File> {
        self.part.map(|part| part.file)
    }

    /// Sends the next bytes.
    ///
    /// # Errors
    /// If the connection is broken, or the file has become shorter: the head has promised more.
    pub(crate) fn step(
        &mut self,
        socket: BorrowedFd<'_>,
        probe: &mut ResidentProbe,
        now_ns: u64,
    ) -> Result<SendStep, Errno> {
        let left = &self.memory[self.memory_at..];
        if left.is_empty() {
            return match &mut self.part {
                Some(part) if part.at < part.end => part.step(socket, probe, now_ns),
                _ => self.fill(socket),
            };
        }
        let is_last =
            self.filling == 0 && self.part.as_ref().is_none_or(|part| part.at == part.end);
        // Not before it is in memory: head and first bytes leave together.
        if let Some(part) = self.part.as_mut().filter(|part| part.at < part.end)
            && !part.is_loaded(probe, now_ns)
        {
            return Ok(SendStep::NeedsLane);
        }
        let more = if is_last { SendFlags::empty() } else { SendFlags::MORE };
        let sent = or_would_block(send(socket, left, SendFlags::NOSIGNAL | more))?;
        if let SendStep::Sent(bytes) = sent {
            self.memory_at += bytes;
        }
        Ok(sent)
    }

    fn fill(&mut self, socket: BorrowedFd<'_>) -> Result<SendStep, Errno> {
        if self.filling == 0 {
            return Ok(SendStep::Done);
        }
        let bytes = self.filling.min(FILLING.len() as u64) as usize;
        let sent = or_would_block(send(socket, &FILLING[..bytes], SendFlags::NOSIGNAL))?;
        if let SendStep::Sent(count) = sent {
            self.filling -= count as u64;
        }
        Ok(sent)
    }
}

impl SendPart {
    fn is_loaded(&mut self, probe: &mut ResidentProbe, now_ns: u64) -> bool {
        if self.at < self.loaded_to && now_ns.saturating_sub(self.loaded_ns) < CHECKED_NS {
            return true;
        }
        let (at, end) = self.window();
        self.loaded_to = probe.resident_to(&self.file, self.stamp.inode, at, end, now_ns);
        self.loaded_ns = now_ns;
        self.loaded_to > self.at
    }

    fn step(
        &mut self,
        socket: BorrowedFd<'_>,
        probe: &mut ResidentProbe,
        now_ns: u64,
    ) -> Result<SendStep, Errno> {
        if !self.is_loaded(probe, now_ns) {
            return Ok(SendStep::NeedsLane);
        }
        let bytes = (self.loaded_to.min(self.end) - self.at) as usize;
        if self.loaded_to >= self.end {
            // A head that was sent promises one version of the file: the last part is only sent of
            // that.
            self.stamp.check(&self.file)?;
        }
        match sendfile(socket, &self.file, Some(&mut self.at), bytes) {
            // The end of the file, before the end that the head promised.
            Ok(0) => Err(Errno::NODATA),
            sent => or_would_block(sent),
        }
    }
}

fn or_would_block(sent: Result<usize, Errno>) -> Result<SendStep, Errno> {
    match sent {
        Ok(bytes) => Ok(SendStep::Sent(bytes)),
        Err(Errno::AGAIN) => Ok(SendStep::WouldBlock),
        // The caller calls again.
        Err(Errno::INTR) => Ok(SendStep::Sent(0)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;
    use crate::reply::ReplyConnection;

    #[test]
    fn body_leaves_with_its_head_or_in_steps() {
        let file = |bytes: u64| {
            let file = File::from(memfd_create("fathom-test", MemfdFlags::CLOEXEC).unwrap());
            rustix::io::write(&file, &vec![b'f'; bytes as usize]).unwrap();
            let stamp = Stamp::from_stat(&fstat(&file).unwrap());
            SendPart::new(file, stamp, 0, bytes)
        };
        let small = SMALL as usize;
        // tmpfs does not read without waiting.
        let can_copy = read_now(&file(1).file, &mut [0], 0).is_ok();
        // The body, its length, and whether the first call sends all.
        let bodies = || {
            [
                (SendBody::Bytes(vec![b'p'; small], None), small, true),
                (SendBody::Bytes(vec![b'p'; small + 1], None), small + 1, false),
                (SendBody::Filling(0), 0, true),
                (SendBody::Filling(SMALL), small, true),
                (SendBody::Filling(SMALL + 1), small + 1, false),
                (SendBody::File(file(0), 0), 0, true),
                (SendBody::File(file(SMALL), 0), small, can_copy),
                (SendBody::File(file(SMALL + 1), 0), small + 1, false),
                (SendBody::File(file(5), 3), 8, false),
            ]
        };
        let get = Exchange {
            begun_ns: 0,
            close: false,
            linger: false,
            is_head: false,
            is_http_1_0: false,
            is_work: true,
        };
        let exchanges = [get, Exchange { is_head: true, ..get }];
        let mut probe = ResidentProbe::new(true, crate::resident::loads());
        for (exchange, (body, length, is_whole)) in
            exchanges.into_iter().flat_map(|exchange| bodies().map(|body| (exchange, body)))
        {
            let (socket, mut client) = UnixStream::pair().unwrap();
            let reply = Reply {
                status: 200,
                length: length as u64,
                media: "",
                version: None,
                part: None,
                location: None,
                allow: None,
                connection: ReplyConnection::Default,
            };
            let head = (&reply, &Date::default());
            let begun = begin(&mut Vec::new(), socket.as_fd(), exchange, head, body, 1);
            let (mut response, mut of_body) = begun.unwrap();
            assert_eq!(response.is_done(), is_whole || exchange.is_head, "{response:?}");
            while let SendStep::Sent(bytes) = response.step(socket.as_fd(), &mut probe, 1).unwrap()
            {
                of_body += response.count(bytes as u64);
            }
            drop(socket);
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            let (_, sent) = text.split_once("\r\n\r\n").unwrap();
            let expected = if exchange.is_head { 0 } else { length };
            assert_eq!((sent.len(), of_body), (expected, expected as u64));
        }
    }
}
