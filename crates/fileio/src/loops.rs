//! Kernels that repeat one system call on a file, to measure its cost where its work is small.
//!
//! The system call instruction is inlined, without the C library. Each kernel counts the calls
//! with the right result and does not look at the data. The caller times it, and warms the file.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader};

use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::Errno;

/// The stream buffer of Rust and Java; others use 4 KiB.
pub const STREAM_BUFFER: usize = 8192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Sequential read(2) of this many bytes. At the end of the file it seeks back, which is not
    /// counted as a call.
    Read(usize),
    /// pread(2) of this many bytes at offset 0.
    Pread(usize),
    /// lseek(2) from block to block of this many bytes, wrapping to the first.
    Seek(u64),
    /// fstat(2), verified by the size.
    Stat,
    /// One byte at a time through a user-space buffer of [`STREAM_BUFFER`] bytes.
    Stream,
}

impl Call {
    /// The values of the parameter `call`.
    pub const NAMED: [(&str, Self); 6] = [
        ("read1", Self::Read(1)),
        ("read4", Self::Read(4)),
        ("pread4k", Self::Pread(4096)),
        ("lseek", Self::Seek(4096)),
        ("fstat", Self::Stat),
        ("buffered_read1", Self::Stream),
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, call)| *call)
    }

    /// Bytes that one call returns.
    pub fn bytes(self) -> usize {
        match self {
            Self::Read(bytes) | Self::Pread(bytes) => bytes,
            Self::Stream => 1,
            Self::Seek(_) | Self::Stat => 0,
        }
    }
}

/// A repeatable call on a file. [`Self::repeat`] continues where the last one ended.
#[derive(Debug)]
pub struct CallLoop<'f> {
    call: Call,
    file: &'f File,
    size: u64,
    block: Vec<u8>,
    stream: BufReader<&'f File>,
    /// Next target of lseek.
    offset: u64,
}

impl<'f> CallLoop<'f> {
    /// Starts at offset 0. Fails with `NODATA` if the file is shorter than one block.
    pub fn new(call: Call, file: &'f File) -> Result<Self, Errno> {
        rewind(file)?;
        let size = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
        let least = match call {
            Call::Seek(block) => block.max(1),
            _ => call.bytes() as u64,
        };
        if size < least || call == Call::Seek(0) {
            return Err(Errno::NODATA);
        }
        let stream = BufReader::with_capacity(STREAM_BUFFER, file);
        Ok(Self { call, file, size, block: vec![0; call.bytes()], stream, offset: 0 })
    }

    /// Makes `calls` calls. Returns how many had the right result. Fails with `NODATA` if the file
    /// has become too short.
    pub fn repeat(&mut self, calls: u64) -> Result<u64, Errno> {
        let Self { call, file, size, block, stream, offset } = self;
        match *call {
            Call::Read(bytes) => repeat_rewinding(file, calls, || {
                Ok(rustix::io::read(&**file, &mut **block)? == bytes)
            }),
            Call::Stream => repeat_rewinding(file, calls, || match stream.fill_buf() {
                Ok(buffered) => {
                    let Some(&byte) = buffered.first() else { return Ok(false) };
                    // black_box: a program that gets one byte at a time cannot vectorize either.
                    block[0] = black_box(byte);
                    stream.consume(1);
                    Ok(true)
                }
                Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            }),
            Call::Pread(bytes) => {
                // Always offset 0: the page that is copied stays in the CPU cache.
                count(calls, || Ok(rustix::io::pread(&**file, &mut **block, 0)? == bytes))
            }
            Call::Seek(bytes) => {
                let last = *size - bytes;
                count(calls, || {
                    let to = *offset;
                    *offset = if to + bytes > last { 0 } else { to + bytes };
                    Ok(seek(&**file, SeekFrom::Start(to))? == to)
                })
            }
            Call::Stat => count(calls, || Ok(fstat(&**file)?.st_size as u64 == *size)),
        }
    }

    /// The data of the last call.
    pub fn last(&self) -> &[u8] {
        &self.block
    }
}

/// Counts the calls that return true. Inlined, so that no call instruction is timed.
#[inline(always)]
fn count(calls: u64, mut once: impl FnMut() -> Result<bool, Errno>) -> Result<u64, Errno> {
    let mut good = 0;
    for _ in 0..calls {
        good += u64::from(once()?);
    }
    Ok(good)
}

/// Makes calls until `calls` succeeded; rewinds the file after one that did not.
#[inline(always)]
fn repeat_rewinding(
    file: &File,
    calls: u64,
    mut once: impl FnMut() -> Result<bool, Errno>,
) -> Result<u64, Errno> {
    let mut good = 0;
    let mut was_rewound = false;
    while good < calls {
        if once()? {
            good += 1;
            was_rewound = false;
        } else if was_rewound {
            return Err(Errno::NODATA);
        } else {
            // The stream buffer is empty here, so only the descriptor has an offset.
            rewind(file)?;
            was_rewound = true;
        }
    }
    Ok(good)
}

fn rewind(file: &File) -> Result<(), Errno> {
    seek(file, SeekFrom::Start(0)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(bytes: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        file
    }

    #[test]
    fn loops_continue_past_the_end_of_the_file() {
        let file = file(10_001);
        for (name, call) in Call::NAMED {
            let mut again = CallLoop::new(call, &file).unwrap();
            assert_eq!(again.repeat(12_000), Ok(12_000), "{name}");
            assert_eq!(again.repeat(13_000), Ok(13_000), "{name}");
        }
    }

    #[test]
    fn data_is_sequential_and_wraps() {
        let file = file(10_000);
        for call in [Call::Read(1), Call::Stream] {
            let mut again = CallLoop::new(call, &file).unwrap();
            for at in (0..10_000).chain([0, 1]) {
                again.repeat(1).unwrap();
                assert_eq!(again.last(), [(at % 251) as u8], "{call:?} at {at}");
            }
        }
    }

    #[test]
    fn file_shorter_than_a_block_is_an_error() {
        let short = file(3);
        for call in [Call::Read(4), Call::Pread(4), Call::Seek(4), Call::Seek(0)] {
            assert_eq!(CallLoop::new(call, &short).err(), Some(Errno::NODATA), "{call:?}");
        }
        let empty = tempfile::tempfile().unwrap();
        assert_eq!(CallLoop::new(Call::Stream, &empty).err(), Some(Errno::NODATA));
        let cut = file(8);
        let mut again = CallLoop::new(Call::Read(4), &cut).unwrap();
        cut.set_len(3).unwrap();
        assert_eq!(again.repeat(10), Err(Errno::NODATA), "truncated");
    }

    #[test]
    fn file_of_one_block_is_enough() {
        let four = file(4);
        for call in [Call::Read(4), Call::Pread(4), Call::Seek(4)] {
            assert_eq!(CallLoop::new(call, &four).unwrap().repeat(3), Ok(3), "{call:?}");
        }
    }

    #[test]
    fn short_calls_are_not_counted() {
        let cut = file(6000);
        let mut blocks = CallLoop::new(Call::Pread(4096), &cut).unwrap();
        let mut sizes = CallLoop::new(Call::Stat, &cut).unwrap();
        assert_eq!((blocks.repeat(10), sizes.repeat(10)), (Ok(10), Ok(10)));
        cut.set_len(4095).unwrap();
        assert_eq!((blocks.repeat(10), sizes.repeat(10)), (Ok(0), Ok(0)));
    }

    #[test]
    fn calls_have_names_and_bytes() {
        let named = Call::NAMED.map(|(name, call)| (Call::named(name) == Some(call), call.bytes()));
        assert_eq!(named, [(true, 1), (true, 4), (true, 4096), (true, 0), (true, 0), (true, 1)]);
        assert_eq!(Call::named("read2"), None);
    }

    #[test]
    fn lseek_visits_whole_blocks_and_wraps() {
        let file = file(11);
        let mut again = CallLoop::new(Call::Seek(4), &file).unwrap();
        let places = [0; 5].map(|_| {
            again.repeat(1).unwrap();
            seek(&file, SeekFrom::Current(0)).unwrap()
        });
        assert_eq!(places, [0, 4, 0, 4, 0]);
        let file = self::file(12);
        let mut whole = CallLoop::new(Call::Seek(4), &file).unwrap();
        assert_eq!((whole.repeat(3), seek(&file, SeekFrom::Current(0))), (Ok(3), Ok(8)));
    }
}
