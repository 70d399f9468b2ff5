//! Links by bare futexes in shared memory: a word for each end, which counts the tokens passed.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fathom_measure::sampler::Fault;

use super::{Alarm, Link, Token};
use crate::os::raw_call::system_call;
use crate::os::shared::{Shareable, Shared};

/// An end that waits for its own word to change and changes the other's.
pub(in crate::os) struct Futex {
    memory: Arc<Shared<Words>>,
    own: usize,
    /// Tokens taken so far: what the own word was before the next.
    taken: Cell<u32>,
}

/// A word for each end, on cache lines of their own, and the token.
#[derive(Default)]
struct Words {
    words: [Word; 2],
    token: Token,
}

#[derive(Default)]
#[repr(align(128))]
struct Word(AtomicU32);

// SAFETY: atomics.
unsafe impl Shareable for Words {}

impl Words {
    /// Changes a word and wakes whoever sleeps on it.
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
        let arguments = [word.as_ptr().addr(), libc::FUTEX_WAIT as usize, old as usize, 0];
        while word.load(Ordering::Acquire) == old {
            // SAFETY: the word lives as long as self; no time-out. Whatever it returns, the word
            // is looked at again.
            unsafe { system_call(libc::SYS_futex, arguments) };
        }
    }
}

/// Two ends, joined by two words.
pub(in crate::os) fn futexes() -> Result<Vec<Futex>, Fault> {
    let memory = Arc::new(Shared::<Words>::zeroed()?);
    let end = |own| Futex { memory: Arc::clone(&memory), own, taken: Cell::new(0) };
    Ok([0, 1].map(end).into())
}

impl Link for Futex {
    #[inline(always)]
    fn pass(&self, token: u8) -> bool {
        self.memory.token.put(token);
        self.memory.wake(1 - self.own)
    }

    #[inline(always)]
    fn take(&self) -> Option<u8> {
        let old = self.taken.get();
        self.memory.wait(self.own, old);
        self.taken.set(old.wrapping_add(1));
        self.memory.token.get()
    }

    fn hang_up(self) {
        self.memory.token.no_more();
        self.memory.wake(1 - self.own);
    }

    fn alarm(&self) -> Option<Alarm> {
        let (memory, own) = (Arc::clone(&self.memory), self.own);
        Some(Box::new(move || {
            memory.token.no_more();
            memory.wake(own);
        }))
    }
}
