//! File I/O in every way that Fathom measures: reads and writes with checksums, and proof of
//! whether the bytes came from the page cache or from a device.
//!
//! - [`sum`]: checksums independent of block size, order and threads; [`generate`]: the data to
//!   write.
//! - [`path_info`]: what a path is; [`filesystem`]: file system types; [`mount`]: type, source and
//!   options of a mount; [`extents`]: data, holes
//!   and unwritten space; [`residency`]: which pages are in the page cache, and how to evict or
//!   load them; [`available_memory`]: memory left for the page cache; [`proc_io`]: bytes that
//!   this process had fetched from devices.
//! - [`caps`]: I/O limits of the control group; [`folder`]: folders for test files;
//!   [`private`]: folders that only this user can change.
//! - [`read`]: all ways of reading; [`fast`]: the fastest of them for each part of a file;
//!   [`write`]: writing; [`loops`]: one system call repeated; [`scratch`]: unnamed temporary
//!   files.
//!
//! `unsafe` is limited to `syscall`, `memory`, `write` (close) and the mapped and io_uring reads.
//! This crate judges no numbers and prints nothing.

pub mod available_memory;
pub mod backing;
pub mod caps;
pub mod extents;
pub mod fast;
pub mod filesystem;
pub mod folder;
pub mod generate;
pub mod loops;
pub mod memory;
pub mod mount;
pub mod path_info;
pub mod private;
pub mod proc_io;
pub mod read;
pub mod residency;
pub mod scratch;
pub mod sum;
mod syscall;
pub mod write;

pub use generate::FileGenerator;
pub use path_info::{PathInfoSource, inspect, read_bytes, read_text};
pub use read::read;
pub use sum::XorSum;
pub use write::write;
