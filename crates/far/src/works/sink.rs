//! Paced datagrams and their count, at both ends.
//!
//! A datagram begins with its round, its number in it and the time at which it was sent. Some ask
//! for an answer: what the far end has received of the round. Rates come from the near end's clock,
//! at the arrival of answers; only the jitter needs the far end's, of which it uses differences.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fathom_measure::Clock;
use fathom_measure::clock::monotonic_raw_ns;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::protocol::HEAD_BYTES;
use crate::protocol::error::FarError;
use crate::works::datagram::{Datagrams, is_passing};
use crate::works::transfer::Track;

/// Answers in a round, at even distances.
const ANSWERS: u64 = 16;
/// How often the near end asks at the end of a round, and how long it waits for each answer.
const TRIES: u32 = 20;
const TRY_NS: f64 = 25e6;
/// Weight of a difference in the jitter, and a datagram that only asks (RFC 3550, 6.4.1).
const WEIGHT: f64 = 1.0 / 16.0;
const NOT_COUNTED: u64 = u64::MAX;
/// More than there are in a round.
const ANSWERS_MAX: usize = 4 * ANSWERS as usize;

/// The words of a datagram: round, number, whether it asks, time, 0; and of an answer: round,
/// received, reordered, jitter in ns, the number of the datagram.
type SinkWords = [u64; 5];

fn words(bytes: &[u8]) -> SinkWords {
    let mut words = SinkWords::default();
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    words
}

fn write(words: SinkWords, bytes: &mut [u8]) {
    bytes
        .iter_mut()
        .zip(words.iter().flat_map(|word| word.to_le_bytes()))
        .for_each(|(to, from)| *to = from);
}

/// What the far end has received of a round.
#[derive(Debug, Default)]
struct SinkReceived {
    round: u64,
    count: u64,
    reordered: u64,
    /// One more than the highest number.
    next: u64,
    jitter_ns: f64,
    /// When the last one arrived and was sent.
    last: Option<[u64; 2]>,
}

impl SinkReceived {
    fn take(&mut self, [round, number, _, sent_ns, _]: SinkWords, arrived_ns: u64) {
        if round > self.round {
            *self = Self { round, ..Self::default() };
        }
        if round < self.round || number == NOT_COUNTED {
            return;
        }
        self.count += 1;
        self.reordered += u64::from(number < self.next);
        self.next = self.next.max(number.saturating_add(1));
        if let Some([arrived, sent]) = self.last.replace([arrived_ns, sent_ns]) {
            let difference = |later: u64, earlier: u64| later.wrapping_sub(earlier) as i64 as f64;
            let transit = difference(arrived_ns, arrived) - difference(sent_ns, sent);
            self.jitter_ns += (transit.abs() - self.jitter_ns) * WEIGHT;
        }
    }

    fn answer(&self, number: u64) -> SinkWords {
        [self.round, self.count, self.reordered, self.jitter_ns as u64, number]
    }
}

/// The far end: counts datagrams of this length until the data connection closes. Returns their
/// number in all rounds.
pub(crate) fn count(
    datagrams: &Datagrams,
    bytes: usize,
    progress: &AtomicU64,
) -> Result<u64, FarError> {
    let (mut received, mut total) = (SinkReceived::default(), 0);
    datagrams.each(bytes, |datagram| {
        let words = words(datagram);
        received.take(words, monotonic_raw_ns());
        total += u64::from(words[1] != NOT_COUNTED);
        progress.store(progress.load(Relaxed) + 1, Relaxed);
        if words[2] == 0 {
            return 0;
        }
        write(received.answer(words[1]), datagram);
        HEAD_BYTES
    })?;
    Ok(total)
}

/// What arrived of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    pub sent: u64,
    pub received: u64,
    pub reordered: u64,
    pub jitter_ns: f64,
    /// Datagrams received, at the arrival of the answers.
    pub track: Track,
    /// From the first datagram to the last.
    pub sending_ns: f64,
}

/// The near end.
#[derive(Debug)]
pub struct Sender {
    socket: UdpSocket,
    datagram: Vec<u8>,
    round: u64,
    pub sent: u64,
}

impl Sender {
    /// Over a socket that is connected to the far end's, by datagrams of this many bytes.
    pub fn new(socket: UdpSocket, bytes: usize) -> Self {
        Self { socket, datagram: vec![0; bytes.max(HEAD_BYTES)], round: 0, sent: 0 }
    }

    /// Sends datagrams, one in each interval, with the clock polled in between.
    ///
    /// # Errors
    /// If a call fails for another reason than the network's, or no answer arrives.
    pub fn run(&mut self, count: u64, interval_ns: f64, clock: &Clock) -> Result<Round, FarError> {
        self.round += 1;
        let every = (count / ANSWERS).max(1);
        let begun = clock.start();
        let mut round = Round { sent: count, track: vec![(begun, 0)], ..Round::default() };
        for number in 0..count {
            while clock.ns(begun, clock.stop()) < number as f64 * interval_ns {
                self.answer(&mut round, clock)?;
            }
            self.send(number, number % every == every - 1)?;
            // A sender that is late never waits.
            self.answer(&mut round, clock)?;
        }
        self.sent += count;
        round.sending_ns = clock.ns(begun, clock.stop());
        // After what is still under way; it may be lost itself.
        for _ in 0..TRIES {
            self.send(NOT_COUNTED, true)?;
            let asked = clock.start();
            while clock.ns(asked, clock.stop()) < TRY_NS {
                if self.answer(&mut round, clock)? == Some(NOT_COUNTED) {
                    return Ok(round);
                }
            }
        }
        Err(FarError::TimedOut(f64::from(TRIES) * TRY_NS / 1e9))
    }

    /// A datagram that the network refuses is lost.
    fn send(&mut self, number: u64, asks: bool) -> Result<(), FarError> {
        write([self.round, number, asks.into(), monotonic_raw_ns(), 0], &mut self.datagram);
        match send(&self.socket, &self.datagram, SendFlags::NOSIGNAL) {
            Ok(_) | Err(Errno::NOBUFS) => Ok(()),
            Err(error) if is_passing(error) => Ok(()),
            Err(error) => Err(FarError::errno("send")(error)),
        }
    }

    /// Takes at most one answer; returns the number of its datagram.
    fn answer(&mut self, round: &mut Round, clock: &Clock) -> Result<Option<u64>, FarError> {
        let mut answer = [0; HEAD_BYTES];
        match recv(&self.socket, &mut answer, RecvFlags::DONTWAIT) {
            Ok((HEAD_BYTES, _)) => {
                let [of, received, reordered, jitter_ns, number] = words(&answer);
                let can_be = of == self.round && (round.received..=round.sent).contains(&received);
                if !can_be || round.track.len() > ANSWERS_MAX {
                    return Ok(None);
                }
                (round.received, round.reordered) = (received, reordered.min(received));
                round.jitter_ns = jitter_ns as f64;
                if number != NOT_COUNTED {
                    round.track.push((clock.stop(), received));
                }
                Ok(Some(number))
            }
            Ok(_) => Ok(None),
            Err(error) if is_passing(error) => Ok(None),
            Err(error) => Err(FarError::errno("recv")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_and_order_are_those_of_the_round() {
        let mut received = SinkReceived::default();
        // Sent each 100 ns; the third arrives 160 ns late, the fourth overtakes none.
        for (number, sent, arrived) in
            [(0, 0, 1000), (1, 100, 1100), (3, 300, 1460), (2, 200, 1470)]
        {
            received.take([1, number, 0, sent, 0], arrived);
        }
        // |0|, |360 − 200| and |10 + 100|, each with a weight of 1/16.
        let expected = (160.0 / 16.0) * 15.0 / 16.0 + 110.0 / 16.0;
        assert!((received.jitter_ns - expected).abs() < 1e-9, "{}", received.jitter_ns);
        assert_eq!(received.answer(9), [1, 4, 1, expected as u64, 9]);
        received.take([1, NOT_COUNTED, 1, 0, 0], 2000);
        received.take([0, 7, 0, 0, 0], 2000);
        assert_eq!(received.count, 4);
        received.take([2, 5, 0, 0, 0], 3000);
        assert_eq!(received.answer(5), [2, 1, 0, 0, 5]);
    }

    #[test]
    fn answers_that_cannot_be_are_dropped() {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        let mut sender = Sender { round: 2, ..Sender::new(near, 64) };
        let mut round = Round { sent: 10, received: 3, ..Round::default() };
        let clock = crate::works::transfer::tests::clock();
        for words in [[1, 5, 0, 0, 5], [2, 11, 0, 0, 5], [2, 2, 0, 0, 5], [2, 7, 99, 4, 6]] {
            let mut answer = [0; HEAD_BYTES];
            write(words, &mut answer);
            far.send(&answer).unwrap();
            sender.answer(&mut round, &clock).unwrap();
        }
        assert_eq!((round.received, round.reordered, round.track.len()), (7, 7, 1));
    }
}
