//! Bytes in either direction over several data connections, at both ends.
//!
//! Each connection carries frames, which begin with a word: two bits for the kind and a number. A
//! block is that many bytes, its word included, in calls of a chunk; other frames are the word
//! alone. The receiver of a block answers with its count of bytes, so that the near end knows from
//! its own clock how much was received when: both ends of an interval have the same delay.
//!
//! One thread at each end, for all connections: its calls do not block, and it polls when none can
//! go on. A call that moves less than a chunk has emptied or filled the buffer of its socket.

use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fathom_measure::Clock;
use fathom_measure::clock::ClockStamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::protocol::WAIT_NS;
use crate::protocol::error::FarError;

/// Bytes of a block, at most.
pub const BLOCK_BYTES_MAX: u64 = 1 << 30;
const WORD_BYTES: usize = size_of::<u64>();
const KIND_SHIFT: u32 = 62;
/// A sender that never waits looks for answers after as many bytes: rarely enough to cost little,
/// and often enough that their stamps are not late.
const LOOK_BYTES: u64 = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// As many bytes, with the word.
    Block(u64),
    /// The bytes of blocks that were received so far.
    Count(u64),
    /// Requests blocks of as many bytes.
    Start(u64),
    /// The last block was sent; by the near end: requests no more.
    End,
}

impl Frame {
    fn word(self) -> [u8; WORD_BYTES] {
        let (kind, number) = match self {
            Self::Block(bytes) => (0, bytes),
            Self::Count(bytes) => (1, bytes),
            Self::Start(bytes) => (2, bytes),
            Self::End => (3, 0),
        };
        (kind << KIND_SHIFT | number).to_le_bytes()
    }

    fn from_word(word: [u8; WORD_BYTES]) -> Result<Self, FarError> {
        let word = u64::from_le_bytes(word);
        let number = word & ((1 << KIND_SHIFT) - 1);
        let is_block = (WORD_BYTES as u64..=BLOCK_BYTES_MAX).contains(&number);
        match word >> KIND_SHIFT {
            0 if is_block => Ok(Self::Block(number)),
            1 => Ok(Self::Count(number)),
            2 if is_block => Ok(Self::Start(number)),
            3 if number == 0 => Ok(Self::End),
            _ => Err(FarError::Unexpected("expected a block of 8 bytes to 1 GiB")),
        }
    }

    fn bytes(self) -> u64 {
        if let Self::Block(bytes) = self { bytes } else { WORD_BYTES as u64 }
    }
}

/// A frame that is being received.
#[derive(Debug, Default)]
struct Incoming {
    word: [u8; WORD_BYTES],
    /// Bytes of the word.
    at: usize,
    /// The block, and how much of it is missing.
    block: u64,
    missing: u64,
}

impl Incoming {
    /// Takes received bytes, and passes on each frame at its end.
    fn take(
        &mut self,
        mut bytes: &[u8],
        mut ended: impl FnMut(Frame) -> Result<(), FarError>,
    ) -> Result<(), FarError> {
        while !bytes.is_empty() {
            if self.missing > 0 {
                let part = self.missing.min(bytes.len() as u64);
                self.missing -= part;
                bytes = &bytes[part as usize..];
                if self.missing == 0 {
                    ended(Frame::Block(self.block))?;
                }
                continue;
            }
            let part = (WORD_BYTES - self.at).min(bytes.len());
            self.word[self.at..self.at + part].copy_from_slice(&bytes[..part]);
            (self.at, bytes) = (self.at + part, &bytes[part..]);
            if self.at == WORD_BYTES {
                self.at = 0;
                match Frame::from_word(self.word)? {
                    Frame::Block(block) if block > WORD_BYTES as u64 => {
                        (self.block, self.missing) = (block, block - WORD_BYTES as u64);
                    }
                    frame => ended(frame)?,
                }
            }
        }
        Ok(())
    }

    fn is_between_frames(&self) -> bool {
        (self.at, self.missing) == (0, 0)
    }
}

/// What one end has sent, received and has to send.
#[derive(Debug, Default)]
struct TransferState {
    /// Bytes of whole blocks.
    sent: u64,
    received: u64,
    /// The frame that is being sent, and how much of it was.
    out: Option<(Frame, u64)>,
    /// To be sent next: a request, an answer, blocks of this size, the end of blocks.
    start: Option<u64>,
    count: Option<u64>,
    block: Option<u64>,
    end: bool,
    /// What the other end has received of this one, and whether its blocks ended.
    answered: u64,
    has_ended: bool,
}

impl TransferState {
    /// The frame to go on with.
    fn next(&mut self) -> Option<(Frame, u64)> {
        if self.out.is_none() {
            let is_last = self.end && self.block.is_none();
            let next = self.start.take().map(Frame::Start);
            let next = next.or_else(|| self.count.take().map(Frame::Count));
            let next = next.or_else(|| self.block.map(Frame::Block));
            self.out = next.or(is_last.then_some(Frame::End)).map(|frame| (frame, 0));
        }
        self.out
    }

    fn has_sent(&mut self, frame: Frame) {
        match frame {
            Frame::Block(bytes) => self.sent += bytes,
            Frame::End => self.end = false,
            Frame::Count(_) | Frame::Start(_) => {}
        }
    }
}

/// Passes over all connections until each tries again.
const RETRY: u32 = 16;

/// One connection.
#[derive(Debug)]
struct TransferStream {
    socket: TcpStream,
    incoming: Incoming,
    state: TransferState,
    may_send: bool,
    may_receive: bool,
    /// Bytes sent since the last look for answers.
    unseen: u64,
    is_closed: bool,
}

impl TransferStream {
    fn new(socket: TcpStream) -> Self {
        let (incoming, state) = (Incoming::default(), TransferState::default());
        let (may_send, may_receive) = (true, false);
        Self { socket, incoming, state, may_send, may_receive, unseen: 0, is_closed: false }
    }

    /// Sends up to a chunk. Returns the bytes.
    fn send(&mut self, buffer: &mut [u8]) -> Result<usize, FarError> {
        let Some((frame, at)) = self.state.next().filter(|_| self.may_send) else { return Ok(0) };
        let from = (at % buffer.len() as u64) as usize;
        let to = (buffer.len() as u64).min(from as u64 + frame.bytes() - at) as usize;
        if at < WORD_BYTES as u64 {
            buffer[..WORD_BYTES].copy_from_slice(&frame.word());
        }
        match send(&self.socket, &buffer[from..to], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => {
                self.may_send = sent == to - from;
                let at = at + sent as u64;
                self.state.out = (at < frame.bytes()).then_some((frame, at));
                if self.state.out.is_none() {
                    self.state.has_sent(frame);
                }
                self.unseen += sent as u64;
                if self.unseen >= LOOK_BYTES {
                    (self.unseen, self.may_receive) = (0, true);
                }
                Ok(sent)
            }
            Err(Errno::AGAIN) => {
                self.may_send = false;
                Ok(0)
            }
            Err(Errno::INTR) => Ok(0),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(FarError::Closed),
            Err(error) => Err(FarError::errno("send")(error)),
        }
    }

    /// Receives up to a chunk. Returns the bytes.
    fn receive(
        &mut self,
        buffer: &mut [u8],
        mut ended: impl FnMut(&mut TransferState, Frame) -> Result<(), FarError>,
    ) -> Result<usize, FarError> {
        if !self.may_receive {
            return Ok(0);
        }
        let length = buffer.len();
        match recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) if self.incoming.is_between_frames() => {
                (self.is_closed, self.may_receive) = (true, false);
                Ok(0)
            }
            Ok((0, _)) | Err(Errno::CONNRESET) => Err(FarError::Closed),
            Ok((count, _)) => {
                self.may_receive = count == length;
                let state = &mut self.state;
                self.incoming.take(&buffer[..count], |frame| ended(state, frame))?;
                Ok(count)
            }
            Err(Errno::AGAIN) => {
                self.may_receive = false;
                Ok(0)
            }
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(FarError::errno("recv")(error)),
        }
    }
}

/// Lets every connection try again now and then: as long as one of them moves bytes, nothing waits,
/// and the others would never learn that they can go on.
fn retry(streams: &mut [TransferStream], passes: &mut u32) {
    *passes = (*passes + 1) % RETRY;
    if *passes == 0 {
        for stream in streams.iter_mut().filter(|stream| !stream.is_closed) {
            (stream.may_send, stream.may_receive) = (true, true);
        }
    }
}

/// Waits until a connection can go on.
fn wait(streams: &mut [TransferStream], wait_ns: Option<u64>) -> Result<(), FarError> {
    let timeout = wait_ns.map(|ns| Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    });
    let mut open: Vec<&mut TransferStream> =
        streams.iter_mut().filter(|one| !one.is_closed).collect();
    let events = |stream: &mut &mut TransferStream| match stream.state.next() {
        Some(_) => PollFlags::IN | PollFlags::OUT,
        None => PollFlags::IN,
    };
    let events: Vec<PollFlags> = open.iter_mut().map(events).collect();
    let waits = open.iter().zip(events);
    let mut waits: Vec<PollFd<'_>> =
        waits.map(|(it, events)| PollFd::from_borrowed_fd(it.socket.as_fd(), events)).collect();
    let found = poll(&mut waits, timeout.as_ref());
    let found: Result<Vec<PollFlags>, Errno> =
        found.map(|count| waits.iter().take(count * waits.len()).map(PollFd::revents).collect());
    match found {
        Ok(found) if found.is_empty() => {
            Err(FarError::TimedOut(wait_ns.unwrap_or_default() as f64 / 1e9))
        }
        Ok(found) => {
            let failed = PollFlags::ERR | PollFlags::HUP;
            for (stream, flags) in open.iter_mut().zip(found) {
                stream.may_send |= flags.intersects(PollFlags::OUT | failed);
                stream.may_receive |= flags.intersects(PollFlags::IN | failed);
            }
            Ok(())
        }
        Err(Errno::INTR) => Ok(()),
        Err(error) => Err(FarError::errno("poll")(error)),
    }
}

/// The far end: answers each block with a count, and sends blocks when they are requested, until
/// the near end closes the connections. Returns the bytes of blocks in both directions.
pub(crate) fn serve(
    data: Vec<TcpStream>,
    chunk: usize,
    progress: &AtomicU64,
) -> Result<u64, FarError> {
    let mut streams: Vec<TransferStream> = data.into_iter().map(TransferStream::new).collect();
    let (mut input, mut output, mut passes) = (vec![0; chunk], vec![0; chunk], 0);
    while streams.iter().any(|stream| !stream.is_closed) {
        let mut moved = 0;
        for stream in streams.iter_mut().filter(|stream| !stream.is_closed) {
            moved += stream.receive(&mut input, answer)? + stream.send(&mut output)?;
        }
        if moved == 0 && streams.iter().any(|stream| !stream.is_closed) {
            // The thread that watches ends this process after a time without progress.
            wait(&mut streams, None)?;
        }
        retry(&mut streams, &mut passes);
        // The only writer: a store suffices.
        progress.store(progress.load(Relaxed) + moved as u64, Relaxed);
    }
    Ok(streams.iter().map(|stream| stream.state.received + stream.state.sent).sum())
}

/// What the far end does at the end of a frame.
fn answer(state: &mut TransferState, frame: Frame) -> Result<(), FarError> {
    match frame {
        Frame::Block(bytes) => {
            state.received += bytes;
            state.count = Some(state.received);
        }
        Frame::Start(bytes) if state.block.is_none() && !state.end => {
            (state.block, state.end) = (Some(bytes), true);
        }
        Frame::End if state.block.is_some() => state.block = None,
        Frame::Start(_) | Frame::End | Frame::Count(_) => {
            return Err(FarError::Unexpected("expected a block"));
        }
    }
    Ok(())
}

/// The directions of a transfer, from the near end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferDirection {
    Send,
    Receive,
    Both,
}

impl TransferDirection {
    pub fn sends(self) -> bool {
        self != Self::Receive
    }

    pub fn receives(self) -> bool {
        self != Self::Send
    }
}

/// How much to transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// Bytes of a block; a multiple of the chunk, so that calls are whole.
    pub block: u64,
    /// The fewest blocks of each connection and direction.
    pub blocks: u64,
    /// The shortest time.
    pub least_ns: f64,
}

/// What was received over one connection in one direction: times at which the near end knew of a
/// count, and the bytes since the beginning, which is the first.
pub type Track = Vec<(ClockStamp, u64)>;

/// The near end of a transfer.
#[derive(Debug)]
pub struct Transfer {
    streams: Vec<TransferStream>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Transfer {
    /// Over these data connections, by calls of `chunk` bytes.
    pub fn new(data: Vec<TcpStream>, chunk: usize) -> Self {
        let streams = data.into_iter().map(TransferStream::new).collect();
        Self { streams, input: vec![0; chunk], output: vec![0; chunk] }
    }

    pub fn connections(&self) -> impl Iterator<Item = &TcpStream> {
        self.streams.iter().map(|stream| &stream.socket)
    }

    /// Bytes of all blocks so far.
    pub fn bytes(&self) -> u64 {
        self.streams.iter().map(|stream| stream.state.sent + stream.state.received).sum()
    }

    /// Transfers blocks over all connections. Nothing is under way before or after it.
    ///
    /// # Errors
    /// If a connection ends, the far end does not keep to the protocol, or nothing arrives.
    pub fn run(
        &mut self,
        direction: TransferDirection,
        length: Length,
        clock: &Clock,
    ) -> Result<Vec<Track>, FarError> {
        let begun = clock.start();
        let mut tracks = Vec::new();
        for stream in &mut self.streams {
            let state = &mut stream.state;
            state.block = direction.sends().then_some(length.block);
            state.start = direction.receives().then_some(length.block);
            state.has_ended = !direction.receives();
            tracks.push([state.answered, state.received].map(|bytes| (bytes, vec![(begun, 0)])));
        }
        let (mut is_stopping, mut passes) = (false, 0);
        loop {
            let mut moved = 0;
            for (stream, track) in self.streams.iter_mut().zip(&mut tracks) {
                moved += stream.send(&mut self.output)?;
                let note = |state: &mut TransferState, frame| {
                    note(state, frame, length.block, track, clock)
                };
                moved += stream.receive(&mut self.input, note)?;
                if stream.is_closed {
                    return Err(FarError::Closed);
                }
            }
            if !is_stopping && clock.ns(begun, clock.stop()) >= length.least_ns {
                let has = |track: &Track| track.len() as u64 > length.blocks;
                let is_long = |[up, down]: &[(u64, Track); 2]| {
                    (!direction.sends() || has(&up.1)) && (!direction.receives() || has(&down.1))
                };
                is_stopping = tracks.iter().all(is_long);
                if is_stopping {
                    for stream in &mut self.streams {
                        (stream.state.block, stream.state.end) = (None, direction.receives());
                    }
                }
            }
            let is_done = |state: &TransferState| {
                state.has_ended && !state.end && state.out.is_none() && state.answered == state.sent
            };
            if is_stopping && self.streams.iter().all(|stream| is_done(&stream.state)) {
                break;
            }
            if moved == 0 {
                wait(&mut self.streams, Some(WAIT_NS))?;
            }
            retry(&mut self.streams, &mut passes);
        }
        let tracks = tracks.into_iter().flatten().map(|(_, track)| track);
        Ok(tracks.filter(|track| track.len() > 1).collect())
    }
}

/// What the near end does at the end of a frame: notes counts, those of the far end first.
fn note(
    state: &mut TransferState,
    frame: Frame,
    block: u64,
    [up, down]: &mut [(u64, Track); 2],
    clock: &Clock,
) -> Result<(), FarError> {
    match frame {
        // At least a block: so the track grows no faster than the work.
        Frame::Count(count) if count >= state.answered + block && count <= state.sent => {
            state.answered = count;
            up.1.push((clock.stop(), count - up.0));
        }
        Frame::Block(bytes) if bytes == block && !state.has_ended => {
            state.received += bytes;
            down.1.push((clock.stop(), state.received - down.0));
        }
        Frame::End if !state.has_ended => state.has_ended = true,
        _ => return Err(FarError::Unexpected("a count or block that cannot be")),
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::TcpListener;

    use fathom_measure::clock::{ClockSource, Specification};

    use super::*;

    pub(crate) fn clock() -> Clock {
        Clock::from_specification(Specification::uncalibrated(ClockSource::MonotonicRaw))
    }

    fn connections(count: usize) -> (Vec<TcpStream>, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pair = |_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0);
        (0..count).map(pair).unzip()
    }

    #[test]
    fn both_ends_count_the_same_bytes() {
        const CHUNK: usize = 1000;
        let (near, far) = connections(3);
        let served = std::thread::spawn(move || serve(far, CHUNK, &AtomicU64::new(0)));
        let mut transfer = Transfer::new(near, CHUNK);
        let length = Length { block: 7 * CHUNK as u64, blocks: 40, least_ns: 2e6 };
        for direction in [
            TransferDirection::Both,
            TransferDirection::Send,
            TransferDirection::Receive,
            TransferDirection::Both,
        ] {
            let before = transfer.bytes();
            let tracks = transfer.run(direction, length, &clock()).unwrap();
            assert_eq!(tracks.len(), if direction == TransferDirection::Both { 6 } else { 3 });
            let sum = |sum, track: &Track| sum + track.last().unwrap().1;
            assert_eq!(tracks.iter().fold(0, sum), transfer.bytes() - before);
            for track in &tracks {
                assert!(track.len() > 40 && track.is_sorted(), "{}", track.len());
            }
        }
        let bytes = transfer.bytes();
        assert!(bytes >= 4 * 3 * 40 * 7000);
        drop(transfer);
        assert_eq!(served.join().unwrap().unwrap(), bytes);
    }

    #[test]
    fn frames_in_any_pieces_are_the_same() {
        let frames =
            [Frame::Start(9), Frame::Block(8), Frame::Block(30), Frame::Count(7), Frame::End];
        let mut bytes = Vec::new();
        for frame in frames {
            let end = bytes.len() + frame.bytes() as usize;
            bytes.extend(frame.word());
            bytes.resize(end, 0);
        }
        for piece in 1..bytes.len() {
            let (mut incoming, mut found) = (Incoming::default(), Vec::new());
            for part in bytes.chunks(piece) {
                let note = |frame| {
                    found.push(frame);
                    Ok(())
                };
                incoming.take(part, note).unwrap();
            }
            assert_eq!((found.as_slice(), incoming.is_between_frames()), (&frames[..], true));
        }
    }

    #[test]
    fn far_end_refuses_frames_that_it_does_not_expect() {
        for frame in [Frame::Count(8), Frame::End, Frame::Block(7), Frame::Start(2 << 30)] {
            let (mut near, far) = connections(1);
            std::io::Write::write_all(&mut near[0], &frame.word()).unwrap();
            let served = serve(far, 64, &AtomicU64::new(0));
            assert!(matches!(served, Err(FarError::Unexpected(_))), "{frame:?}: {served:?}");
        }
    }

    #[test]
    fn near_end_refuses_counts_that_cannot_be() {
        for frame in [Frame::Count(1 << 40), Frame::Count(0), Frame::Start(64), Frame::End] {
            let (near, mut far) = connections(1);
            std::io::Write::write_all(&mut far[0], &frame.word()).unwrap();
            let length = Length { block: 6400, blocks: 1, least_ns: 1e12 };
            let found = Transfer::new(near, 64).run(TransferDirection::Send, length, &clock());
            assert!(matches!(found, Err(FarError::Unexpected(_))), "{frame:?}: {found:?}");
        }
    }
}
