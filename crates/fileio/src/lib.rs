//! One file, read and written in every way, with checksums, and with proof of whether it came from
//! memory or from a device.
//!
//! - [`sum`]: checksums that no cut, order or number of threads changes; [`generate`]: data to
//!   write.
//! - [`caps`]: how fast this process may be with it; [`folder`]: where files may lie.
//! - [`subject`]: what a path is; [`extents`]: where it has bytes; [`residency`]: how much of it
//!   is in memory, and the way to cold and warm; [`room`]: how much memory there is for it;
//!   [`traffic`]: what devices were asked for.
//! - [`read`]: the ways of reading; [`fast`]: the quickest of them for each part of a file;
//!   [`write`]: the way of writing; [`loops`]: bare calls over and over; [`scratch`]: files that
//!   leave nothing behind.
//!
//! All `unsafe` that these need is here: `kernel`, `memory`, and the two ways of reading by mapped
//! pages and by io_uring. Deliberately absent: any verdict on the numbers, and anything that
//! prints.

pub mod caps;
pub mod extents;
pub mod fast;
pub mod filesystem;
pub mod folder;
pub mod generate;
mod kernel;
pub mod loops;
pub mod memory;
pub mod read;
pub mod residency;
pub mod room;
pub mod scratch;
pub mod subject;
pub mod sum;
pub mod traffic;
pub mod write;

pub use generate::Generator;
pub use read::read;
pub use subject::{Source, look};
pub use sum::Sum;
pub use write::write;
