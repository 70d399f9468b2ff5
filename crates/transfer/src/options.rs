//! The options of `fathom transfer`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use fathom_metric::notation::{NotationError, seed, sizes, time};
use fathom_paths::device::WINDOW_MAX;
use fathom_paths::{Io, ReceivePath, SIZE_MAX, SendPath, SizeOf};

use crate::cell::{Cell, CellChoice, SIZE};
use crate::set::{Study, TransferSource};

const EXAMPLES: &str = "\
Examples:
  fathom transfer                          all paths, then each setting, in about five minutes
  fathom transfer --sets small --time 20s  ten small files only
  fathom transfer /srv/images              the files of a directory of yours
  fathom transfer --to HOST                to `fathom serve /any --receive /var/tmp` on HOST
  fathom transfer --send-path copy,sendfile --receive-path copy --buffer 4KiB,64KiB,1MiB
                                           every combination of these
  fathom transfer --published              the 48 cells of the 2020 study, beside its figures
  fathom transfer --send-path device-copy,device-mmap --receive-path device-copy,device-mmap
                                           the kernel devices, if their module is loaded
  fathom transfer --pages --sets small --time 5s
                                           the page-table entries behind both mappings

Each repetition has all combinations, in random order, between two fresh processes. The clock runs
from the first connect to the last write of the receiver; the content is verified afterwards. An
effect is the time with a setting ÷ the time without it: below 1 it is faster.

Sets: small is 10 files of 23.5 KiB in all, file one of 11.5 MiB, video two of 347.5 MiB in all.
Exit status: 0 each combination has a result, 1 none has, 3 some have none, 130 Ctrl-C.";

/// Compare every way to send files and every way to receive them.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct TransferOptions {
    /// Send the files of these directories instead of the sets.
    #[arg(value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Send these sets: small, file, video.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "folders")]
    #[arg(value_parser = study, default_value = "small,file,video")]
    pub sets: Vec<Study>,
    /// Send to this host, on which `fathom serve DIR --receive DIR` runs.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub to: Option<String>,
    /// Prove the token in this file to the host of --to [default: $FATHOM_TOKEN_FILE].
    #[arg(long, value_name = "FILE", requires = "to")]
    pub token_file: Option<PathBuf>,
    /// Connect from this address of this host.
    #[arg(long, value_name = "ADDRESS", requires = "to")]
    pub bind: Option<IpAddr>,
    /// Ways to send: copy, mmap, sendfile, splice, zerocopy, uring, device-copy, device-mmap. With
    /// this option, or one of the next six, every combination is measured; the first of each list
    /// is the reference.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = send_path)]
    pub send_path: Vec<SendPath>,
    /// Ways to receive: copy, mmap, splice, uring, device-copy, device-mmap.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = receive_path)]
    pub receive_path: Vec<ReceivePath>,
    /// Connections: persistent (one for all files), per-file.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = connection)]
    pub connection: Vec<TransferConnection>,
    /// How calls on sockets wait: blocking, nonblocking (poll), async (SIGIO; uring always waits
    /// for completions).
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = io)]
    pub io: Vec<Io>,
    /// Buffer sizes of copy, uring and device-copy, up to 64 MiB.
    #[arg(long, value_name = "SIZES", value_parser = path_sizes)]
    pub buffer: Option<TransferSizes>,
    /// Window sizes of mmap and zerocopy, in whole pages, up to 64 MiB, and of device-mmap, up to
    /// 16 MiB.
    #[arg(long, value_name = "SIZES", value_parser = page_sizes)]
    pub window: Option<TransferSizes>,
    /// Let the receiver answer after each file: per-file.
    #[arg(long, value_name = "WHEN", value_parser = ["per-file"])]
    pub ack: Option<String>,
    /// Measure the 48 cells of the 2020 study: 512-byte buffers, windows of 16 and 256 pages.
    #[arg(long, conflicts_with_all = ["send_path", "receive_path", "connection", "io", "buffer"])]
    #[arg(conflicts_with_all = ["window", "ack", "folders"])]
    pub published: bool,
    /// Measure them by the kernel devices: device-copy for copy, device-mmap for mmap.
    #[arg(long, requires = "published")]
    #[arg(conflicts_with_all = ["send_path", "receive_path", "connection", "io", "buffer"])]
    #[arg(conflicts_with_all = ["window", "ack", "folders", "time"])]
    pub device: bool,
    /// Show the page-table entry behind each end's mapping.
    #[arg(long)]
    pub pages: bool,
    /// Repeat each combination this often [default: as often as --time allows, at most 100; 100
    /// with --published].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: Option<u32>,
    /// Begin no repetition after this time; at least one is measured.
    #[arg(long, value_name = "TIME", default_value = "4min", value_parser = time)]
    #[arg(conflicts_with_all = ["repeat", "published"])]
    pub time: Duration,
    /// Make and receive files in this directory [default: $FATHOM_FOLDER, or /var/tmp, or the
    /// current directory].
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Set the TCP congestion control of both ends [default: the system's].
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Seed the order of the combinations.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed)]
    pub seed: u64,
    /// Run as a sending end.
    #[arg(long, hide = true)]
    pub sender: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferConnection {
    Persistent,
    PerFile,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferSizes(pub Vec<u32>);

/// One of some names.
fn named<T: Copy>(text: &str, all: &[(&str, T)]) -> Result<T, NotationError> {
    let found = all.iter().find(|(name, _)| *name == text.trim());
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    found.map(|(_, value)| *value).ok_or_else(|| NotationError::new(text, names.join(", ")))
}

fn study(text: &str) -> Result<Study, NotationError> {
    named(text, &Study::ALL.map(|one| (one.name(), one)))
}

fn send_path(text: &str) -> Result<SendPath, NotationError> {
    named(text, &SendPath::ALL.map(|one| (one.name(), one)))
}

fn receive_path(text: &str) -> Result<ReceivePath, NotationError> {
    named(text, &ReceivePath::ALL.map(|one| (one.name(), one)))
}

fn io(text: &str) -> Result<Io, NotationError> {
    named(text, &Io::ALL.map(|one| (one.name(), one)))
}

fn connection(text: &str) -> Result<TransferConnection, NotationError> {
    let all =
        [("persistent", TransferConnection::Persistent), ("per-file", TransferConnection::PerFile)];
    named(text, &all)
}

fn path_sizes(text: &str) -> Result<TransferSizes, NotationError> {
    let all = sizes(text)?;
    let is_allowed = |bytes: &u64| (1..=SIZE_MAX as u64).contains(bytes);
    match all.iter().all(is_allowed) {
        true => Ok(TransferSizes(all.into_iter().map(|bytes| bytes as u32).collect())),
        false => Err(NotationError::new(text, "sizes from 1 B to 64 MiB, such as 4KiB,64KiB")),
    }
}

fn page_sizes(text: &str) -> Result<TransferSizes, NotationError> {
    let all = path_sizes(text)?;
    let page = rustix::param::page_size() as u32;
    match all.0.iter().all(|bytes| bytes.is_multiple_of(page)) {
        true => Ok(all),
        false => Err(NotationError::new(text, format!("multiples of {page} B, such as 64KiB"))),
    }
}

/// The list, or its usual content.
fn or<T: Clone>(list: &[T], usual: T) -> Vec<T> {
    if list.is_empty() { vec![usual] } else { list.to_vec() }
}

impl TransferOptions {
    pub fn sources(&self) -> Vec<TransferSource> {
        match self.folders.is_empty() {
            true => self.sets.iter().copied().map(TransferSource::Study).collect(),
            false => self.folders.iter().cloned().map(TransferSource::Folder).collect(),
        }
    }

    /// What the options choose; `None` for the usual design.
    fn choice(&self) -> Option<CellChoice> {
        let sizes = |all: &Option<TransferSizes>| {
            let all = all.as_ref().map_or(&[][..], |TransferSizes(all)| all);
            or(all, SIZE)
        };
        let is_usual = self.send_path.is_empty()
            && self.receive_path.is_empty()
            && self.connection.is_empty()
            && self.io.is_empty()
            && self.buffer.is_none()
            && self.window.is_none()
            && self.ack.is_none();
        let connections = or(&self.connection, TransferConnection::Persistent);
        (!is_usual).then(|| CellChoice {
            send: or(&self.send_path, SendPath::Copy),
            receive: or(&self.receive_path, ReceivePath::Copy),
            persistent: connections
                .iter()
                .map(|one| *one == TransferConnection::Persistent)
                .collect(),
            io: or(&self.io, Io::Blocking),
            buffers: sizes(&self.buffer),
            windows: sizes(&self.window),
            ack: self.ack.is_some(),
        })
    }

    /// Fails if a size is of no path that is chosen.
    pub fn check_sizes(&self) -> Result<(), String> {
        let Some(choice) = self.choice() else { return Ok(()) };
        let is_used = |size| {
            choice.send.iter().any(|path| path.size_of() == size)
                || choice.receive.iter().any(|path| path.size_of() == size)
        };
        if self.buffer.is_some() && !is_used(SizeOf::Buffer) {
            let text = "--buffer: no chosen path has one; copy, uring and device-copy have";
            return Err(text.to_owned());
        }
        if self.window.is_some() && !is_used(SizeOf::Window) {
            let text = "--window: no chosen path has one; mmap, zerocopy and device-mmap have";
            return Err(text.to_owned());
        }
        let maps_device = choice.send.contains(&SendPath::DeviceMmap)
            || choice.receive.contains(&ReceivePath::DeviceMmap);
        let largest = choice.windows.iter().max().copied().unwrap_or(0);
        if maps_device && largest as usize > WINDOW_MAX {
            return Err(format!("--window {largest}: device-mmap has at most 16 MiB"));
        }
        Ok(())
    }

    /// The options that require the devices of the sending and of the receiving end.
    pub fn needs_devices(&self) -> [Option<String>; 2] {
        let by_option = self.device.then(|| "--device".to_owned());
        let send = self.send_path.iter().find(|path| path.needs_device());
        let receive = self.receive_path.iter().find(|path| path.needs_device());
        [
            by_option.clone().or(send.map(|path| format!("--send-path {path}"))),
            by_option.or(receive.map(|path| format!("--receive-path {path}"))),
        ]
    }

    /// The combinations for a set of these bytes, with a largest file. The first one has the
    /// reference levels. `has_device`: of the sending and the receiving end.
    pub fn cells(&self, set: usize, bytes: u64, largest: u64, has_device: [bool; 2]) -> Vec<Cell> {
        match self.choice() {
            _ if self.published => crate::cell::published(set, self.device),
            Some(choice) => crate::cell::chosen(set, &choice),
            None => crate::cell::usual(set, bytes, largest, has_device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<TransferOptions, clap::Error> {
        TransferOptions::try_parse_from(std::iter::once("transfer").chain(line.split_whitespace()))
    }

    #[test]
    fn options_choose_the_cells() {
        const NONE: [bool; 2] = [false; 2];
        assert_eq!(parsed("").unwrap().cells(0, 1 << 20, 1 << 20, NONE).len(), 36);
        assert_eq!(parsed("--published").unwrap().cells(2, 1, 1, NONE).len(), 16);
        let by_device = parsed("--published --device").unwrap();
        assert!(by_device.cells(2, 1, 1, NONE).iter().all(|cell| cell.send.needs_device()));
        assert_eq!(by_device.needs_devices()[1].as_deref(), Some("--device"));
        let named = parsed("--send-path copy,device-mmap").unwrap().needs_devices();
        assert_eq!(named, [Some("--send-path device-mmap".to_owned()), None]);
        let some = parsed("--send-path sendfile,copy --buffer 4K..16K --connection per-file");
        let cells = some.unwrap().cells(1, 1, 1, NONE);
        // The receiver copies through each buffer.
        assert_eq!(cells.len(), 6);
        assert!(cells.iter().all(|cell| cell.set == 1 && !cell.persistent));
        assert_eq!(cells[0].send, SendPath::Sendfile);
        assert_eq!(parsed("--sets video,small").unwrap().sources().len(), 2);
        assert_eq!(parsed("a b").unwrap().sources()[1], TransferSource::Folder("b".into()));
    }

    #[test]
    fn wrong_options_are_named() {
        for (line, expected) in [
            ("--send-path send", "copy, mmap, sendfile"),
            ("--receive-path sendfile", "copy, mmap, splice, uring, device-copy, device-mmap"),
            ("--device", "--published"),
            ("--connection both", "persistent, per-file"),
            ("--buffer 0", "1 B to 64 MiB"),
            ("--window 65MiB", "1 B to 64 MiB"),
            ("--window 5000", "multiples of 4096 B"),
            ("--repeat 3 --time 5s", "cannot be used with"),
            ("--ack each", "per-file"),
            ("--sets large", "small, file, video"),
            ("--published --buffer 1K", "cannot be used with"),
            ("--bind ::1", "--to"),
        ] {
            let error = parsed(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
        let large = parsed("--send-path device-mmap --window 16MiB,32MiB").unwrap();
        let error = large.check_sizes().unwrap_err();
        assert_eq!(error, "--window 33554432: device-mmap has at most 16 MiB");
    }
}
