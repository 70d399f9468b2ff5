//! What other threads leave for a reactor.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::job::Done;
use crate::ticket::TicketPlace;

#[derive(Debug)]
pub(crate) enum Mail {
    /// A connection that another reactor accepted.
    Accepted {
        socket: OwnedFd,
        peer: Option<IpAddr>,
    },
    Done {
        place: TicketPlace,
        done: Done,
    },
}

#[derive(Debug)]
pub(crate) struct Mailbox {
    letters: Mutex<Vec<Mail>>,
    bell: OwnedFd,
}

impl Mailbox {
    pub(crate) fn new() -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { letters: Mutex::new(Vec::new()), bell })
    }

    pub(crate) fn leave(&self, mail: Mail) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.push(mail);
        if letters.len() == 1 {
            self.ring();
        }
    }

    /// Wakes the reactor.
    pub(crate) fn ring(&self) {
        // It fails only where the counter is full, which wakes as well.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    pub(crate) fn empty(&self) -> Vec<Mail> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
