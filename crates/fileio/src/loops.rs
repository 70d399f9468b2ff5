//! System calls on one file, over and over, with next to nothing between them: what a call costs
//! where its work is small.
//!
//! The instruction stands in the loop itself: no C library is between. Each loop counts the calls
//! that did what they were to do, and nobody looks at the bytes. What is timed is the caller's
//! matter; so is that the file is in memory.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, Read as _};

use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::Errno;

/// What the stream of a program holds of a file: that of Rust and of Java; others hold 4 KiB.
pub const STREAM: usize = 8192;

/// read(2) of a block, from where the file stands; at its end it is wound back, which is no call
/// of those asked for. Returns how many calls gave a whole block.
///
/// # Errors
/// Where the file cannot be read, or is shorter than a block.
pub fn read(file: &File, block: &mut [u8], calls: u64) -> Result<u64, Errno> {
    let mut done = 0;
    let mut was_wound = false;
    while done < calls {
        if rustix::io::read(file, &mut *block)? == block.len() {
            done += 1;
            was_wound = false;
        } else if was_wound {
            return Err(Errno::NODATA);
        } else {
            rewind(file)?;
            was_wound = true;
        }
    }
    Ok(done)
}

/// pread(2) of block after block of the first `end` bytes, and again from the first. Returns how
/// many calls gave a whole block.
///
/// # Errors
/// Where the file cannot be read, or `end` is less than a block.
pub fn pread(file: &File, block: &mut [u8], end: u64, calls: u64) -> Result<u64, Errno> {
    let mut places = Places::within(end, block.len() as u64)?;
    let mut done = 0;
    for _ in 0..calls {
        done += u64::from(rustix::io::pread(file, &mut *block, places.next())? == block.len());
    }
    Ok(done)
}

/// lseek(2) to block after block of the first `end` bytes, and again to the first. Returns how
/// many calls arrived where they were to.
///
/// # Errors
/// Where the file cannot be sought in, or `end` is less than a block.
pub fn lseek(file: &File, block: u64, end: u64, calls: u64) -> Result<u64, Errno> {
    let mut places = Places::within(end, block)?;
    let mut done = 0;
    for _ in 0..calls {
        let place = places.next();
        done += u64::from(seek(file, SeekFrom::Start(place))? == place);
    }
    Ok(done)
}

/// fstat(2) of the file. Returns how many calls told its size.
///
/// # Errors
/// Where they fail.
pub fn fstat_of(file: &File, calls: u64) -> Result<u64, Errno> {
    let size = fstat(file)?.st_size;
    let mut done = 0;
    for _ in 0..calls {
        done += u64::from(fstat(file)?.st_size == size);
    }
    Ok(done)
}

/// A byte at a time by way of a buffer of [`STREAM`] bytes in this process, as
/// streams do it: one read(2) for each buffer. Returns how many bytes came.
///
/// # Errors
/// Where the file cannot be read, or is empty.
pub fn buffered_read1(file: &File, calls: u64) -> Result<u64, Errno> {
    let mut stream = BufReader::with_capacity(STREAM, file);
    let mut byte = [0_u8];
    let mut done = 0;
    let mut was_wound = false;
    while done < calls {
        let read = stream.read(&mut byte);
        if read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))? == 1 {
            black_box(byte);
            done += 1;
            was_wound = false;
        } else if was_wound {
            return Err(Errno::NODATA);
        } else {
            // The buffer is empty here, so the descriptor alone has a place.
            rewind(file)?;
            was_wound = true;
        }
    }
    Ok(done)
}

/// Winds a file back to its first byte.
///
/// # Errors
/// Where it cannot be sought in.
pub fn rewind(file: &File) -> Result<(), Errno> {
    seek(file, SeekFrom::Start(0)).map(|_| ())
}

/// Block after block of the first bytes of a file, for ever.
struct Places {
    next: u64,
    block: u64,
    /// The last place where a whole block fits.
    last: u64,
}

impl Places {
    fn within(end: u64, block: u64) -> Result<Self, Errno> {
        let last = end.checked_sub(block).filter(|_| block > 0).ok_or(Errno::NODATA)?;
        Ok(Self { next: 0, block, last })
    }

    fn next(&mut self) -> u64 {
        let place = self.next;
        self.next = if place + self.block > self.last { 0 } else { place + self.block };
        place
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(bytes: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; bytes]).unwrap();
        rewind(&file).unwrap();
        file
    }

    #[test]
    fn every_loop_does_as_many_calls_as_asked_for_also_beyond_the_end_of_the_file() {
        let file = file(10_001);
        assert_eq!(read(&file, &mut [0; 1], 25_000), Ok(25_000));
        assert_eq!(read(&file, &mut [0; 4], 25_000), Ok(25_000));
        assert_eq!(pread(&file, &mut [0; 4096], 10_001, 1000), Ok(1000));
        assert_eq!(lseek(&file, 4096, 10_001, 1000), Ok(1000));
        assert_eq!(fstat_of(&file, 1000), Ok(1000));
        assert_eq!(buffered_read1(&file, 25_000), Ok(25_000));
    }

    #[test]
    fn a_file_shorter_than_a_block_is_an_error_and_no_endless_loop() {
        let file = file(3);
        assert_eq!(read(&file, &mut [0; 4], 10), Err(Errno::NODATA));
        assert_eq!(pread(&file, &mut [0; 4], 3, 10), Err(Errno::NODATA));
        assert_eq!(lseek(&file, 4, 3, 10), Err(Errno::NODATA));
        assert_eq!(lseek(&file, 0, 3, 10), Err(Errno::NODATA));
        assert_eq!(buffered_read1(&tempfile::tempfile().unwrap(), 10), Err(Errno::NODATA));
    }

    #[test]
    fn calls_that_did_less_are_not_counted() {
        let short = file(6000);
        assert_eq!(pread(&short, &mut [0; 4096], 8192, 10), Ok(5), "each second lies behind it");
    }

    #[test]
    fn places_are_each_whole_block_in_order_and_again() {
        let mut places = Places::within(11, 4).unwrap();
        assert_eq!([0; 5].map(|_| places.next()), [0, 4, 0, 4, 0]);
        let mut one = Places::within(4, 4).unwrap();
        assert_eq!([0; 3].map(|_| one.next()), [0; 3]);
    }
}
