//! Links by futexes in shared memory: a word for each peer, which counts the tokens sent to it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Link, LinkToken, OnPeerDeath};
use crate::os::raw_call::system_call;
use crate::os::shared::{Shareable, SharedPage};
use crate::prelude::*;

/// A peer that waits for its own word to change and changes the other's.
pub(in crate::os) struct Futex {
    memory: Arc<SharedPage<FutexWords>>,
    own: usize,
    /// Tokens received: the value of the own word before the next.
    received: Cell<u32>,
}

#[derive(Default)]
struct FutexWords {
    words: [FutexWord; 2],
    token: LinkToken,
}

/// Two cache lines: adjacent-line prefetching would otherwise make the peers share one.
#[derive(Default)]
#[repr(align(128))]
struct FutexWord(AtomicU32);

// SAFETY: atomics.
unsafe impl Shareable for FutexWords {}

impl FutexWords {
    /// Changes a word and wakes its sleeper. Release: the token must be visible before the word.
    #[inline(always)]
    fn wake(&self, index: usize) -> bool {
        let word = &self.words[index].0;
        word.fetch_add(1, Ordering::Release);
        let arguments = [word.as_ptr().addr(), libc::FUTEX_WAKE as usize, 1, 0];
        // SAFETY: the word lives as long as self.
        unsafe { system_call(libc::SYS_futex, arguments) >= 0 }
    }

    /// Sleeps until a word is no longer `old`.
    #[inline(always)]
    fn wait(&self, index: usize, old: u32) {
        let word = &self.words[index].0;
        // Not FUTEX_PRIVATE_FLAG: the word is shared between processes.
        let arguments = [word.as_ptr().addr(), libc::FUTEX_WAIT as usize, old as usize, 0];
        // A loop, because a signal or a spurious wake-up also ends the call. Acquire: see `wake`.
        while word.load(Ordering::Acquire) == old {
            // SAFETY: the word lives as long as self; there is no timeout. The result is ignored,
            // since the loop rereads the word.
            unsafe { system_call(libc::SYS_futex, arguments) };
        }
    }

    fn close(&self, index: usize) {
        self.token.close();
        self.wake(index);
    }
}

pub(in crate::os) fn futexes() -> Result<Vec<Futex>> {
    let memory = Arc::new(SharedPage::<FutexWords>::zeroed()?);
    let end = |own| Futex { memory: Arc::clone(&memory), own, received: Cell::new(0) };
    Ok([0, 1].map(end).into())
}

impl Link for Futex {
    #[inline(always)]
    fn send(&self, token: u8) -> bool {
        self.memory.token.store(token);
        self.memory.wake(1 - self.own)
    }

    #[inline(always)]
    fn receive(&self) -> Option<u8> {
        let old = self.received.get();
        self.memory.wait(self.own, old);
        self.received.set(old.wrapping_add(1));
        self.memory.token.load()
    }

    fn close(self) {
        self.memory.close(1 - self.own);
    }

    fn on_peer_death(&self) -> Option<OnPeerDeath> {
        let (memory, own) = (Arc::clone(&self.memory), self.own);
        Some(Box::new(move || memory.close(own)))
    }
}
