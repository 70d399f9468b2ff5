//! The `fathom file …` commands. They measure named files once, in one process, and share the
//! models and cache states of the file metrics.

mod bandwidth;
mod by_hand;
pub mod cache;
mod cache_state;
pub mod calls;
mod cap;
pub mod capacity;
pub mod contention;
pub mod fast;
mod options;
mod passes;
pub mod read;
pub mod reasonable_size;
pub mod sweep;
mod temporary;
pub mod write;
