//! A combination of a set, two paths and their settings, and the combinations of a design.

use fathom_analysis::effects::Levels;
use fathom_paths::{Io, ReceivePath, SendPath, SizeOf};
use fathom_record::quantity::quantity;
use fathom_record::{Params, Unit};
use serde::{Deserialize, Serialize};

/// Buffer and window where they are not the factor.
pub const SIZE: u32 = 64 << 10;
/// Of the study: its buffer, and windows of 16 and 256 pages.
const STUDY_BUFFER: u32 = 512;
const STUDY_WINDOWS: [u32; 2] = [16 * 4096, 256 * 4096];
/// A set above this size gets no full design: its combinations take seconds.
const LARGE: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Index of the set.
    pub set: usize,
    pub send: SendPath,
    pub receive: ReceivePath,
    /// One connection for all files.
    pub persistent: bool,
    pub io: Io,
    pub buffer: u32,
    pub window: u32,
    /// The receiver answers after each file.
    pub ack: bool,
}

/// The factors, in the order of [`Cell::levels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    Send,
    Receive,
    Connection,
    Io,
    Buffer,
    Window,
    Ack,
}

// The name of its parameter.
fathom_record::words!(
    Factor.name.ALL,
    Send = "send",
    Receive = "receive",
    Connection = "connection",
    Io = "io",
    Buffer = "buffer_bytes",
    Window = "window_bytes",
    Ack = "ack"
);

impl Factor {
    /// The size that it is.
    pub fn size(self) -> Option<SizeOf> {
        match self {
            Self::Buffer => Some(SizeOf::Buffer),
            Self::Window => Some(SizeOf::Window),
            _ => None,
        }
    }

    /// A level in words, such as `window 4 KiB`.
    pub fn words(self, level: &str) -> String {
        let name = self.name().trim_end_matches("_bytes");
        match (self.size(), level.parse::<f64>()) {
            (Some(_), Ok(bytes)) => format!("{name} {}", quantity(bytes, Unit::Bytes)),
            _ => format!("{name} {level}"),
        }
    }

    pub fn level_name(self, level: u32) -> String {
        let index = level as usize;
        let is = |word: &str| word.to_owned();
        match self {
            Self::Send => is(SendPath::ALL[index].name()),
            Self::Receive => is(ReceivePath::ALL[index].name()),
            Self::Connection => is(["persistent", "per-file"][index]),
            Self::Io => is(Io::ALL[index].name()),
            Self::Buffer | Self::Window => level.to_string(),
            Self::Ack => is(["none", "per-file"][index]),
        }
    }
}

impl Cell {
    pub fn usual(set: usize, send: SendPath, receive: ReceivePath) -> Self {
        let (buffer, window) = (SIZE, SIZE);
        let (persistent, io, ack) = (true, Io::Blocking, false);
        Self { set, send, receive, persistent, io, buffer, window, ack }
    }

    /// The level of each factor. A size that neither path has is a level as well, so that cells
    /// which differ in their paths only are a pair.
    pub fn levels(&self) -> Levels {
        let place = |found: Option<usize>| found.unwrap_or_default() as u32;
        vec![
            place(SendPath::ALL.iter().position(|it| *it == self.send)),
            place(ReceivePath::ALL.iter().position(|it| *it == self.receive)),
            u32::from(!self.persistent),
            place(Io::ALL.iter().position(|it| *it == self.io)),
            self.buffer,
            self.window,
            u32::from(self.ack),
        ]
    }

    /// With the names of the study for the paths of kernel devices.
    pub fn as_published(self) -> Self {
        let send = match self.send {
            SendPath::DeviceCopy => SendPath::Copy,
            SendPath::DeviceMmap => SendPath::Mmap,
            send => send,
        };
        let receive = match self.receive {
            ReceivePath::DeviceCopy => ReceivePath::Copy,
            ReceivePath::DeviceMmap => ReceivePath::Mmap,
            receive => receive,
        };
        Self { send, receive, ..self }
    }

    pub fn has(&self, size: SizeOf) -> bool {
        self.send.size_of() == size || self.receive.size_of() == size
    }

    /// Both ends wait for completions of io_uring.
    fn is_by_ring(&self) -> bool {
        (self.send, self.receive) == (SendPath::Uring, ReceivePath::Uring)
    }

    /// The parameters of its records. `published`: with the window also where no end has one, since
    /// the study repeated those cells for each.
    pub fn params(&self, set: &str, published: bool) -> Params {
        let io = if self.is_by_ring() { Io::Async } else { self.io };
        let mut params = Params::one("set", set)
            .and("send", self.send.name())
            .and("receive", self.receive.name())
            .and("connection", if self.persistent { "persistent" } else { "per-file" })
            .and("io", io.name());
        if self.has(SizeOf::Buffer) {
            params = params.and("buffer_bytes", i64::from(self.buffer));
        }
        if self.has(SizeOf::Window) || published {
            params = params.and("window_bytes", i64::from(self.window));
        }
        if self.ack { params.and("ack", "per-file") } else { params }
    }

    pub fn send_size(&self) -> u32 {
        if self.send.size_of() == SizeOf::Window { self.window } else { self.buffer }
    }

    pub fn receive_size(&self) -> u32 {
        if self.receive.size_of() == SizeOf::Window { self.window } else { self.buffer }
    }
}

/// What the user asked for; the first of each list is the reference.
#[derive(Clone, Debug)]
pub struct CellChoice {
    pub send: Vec<SendPath>,
    pub receive: Vec<ReceivePath>,
    pub persistent: Vec<bool>,
    pub io: Vec<Io>,
    pub buffers: Vec<u32>,
    pub windows: Vec<u32>,
    pub ack: bool,
}

/// All paths at one size, then one factor at a time with both ends by copy and both by mmap. Sizes
/// beyond the largest file make no difference. `has_device`: of the sending and the receiving end.
pub fn usual(set: usize, bytes: u64, largest: u64, has_device: [bool; 2]) -> Vec<Cell> {
    let (copy, mapped) = (
        Cell::usual(set, SendPath::Copy, ReceivePath::Copy),
        Cell::usual(set, SendPath::Mmap, ReceivePath::Mmap),
    );
    let [may_send, may_receive] = has_device;
    let receive = ReceivePath::ALL.into_iter().filter(|path| may_receive || !path.needs_device());
    let send = SendPath::ALL.into_iter().filter(|path| may_send || !path.needs_device());
    let all =
        send.flat_map(|send| receive.clone().map(move |receive| Cell::usual(set, send, receive)));
    let is_large = bytes > LARGE;
    let is_cross = |cell: &Cell| {
        cell.send == SendPath::Copy || cell.receive == ReceivePath::Copy || *cell == mapped
    };
    let mut cells: Vec<Cell> = all.filter(|cell| !is_large || is_cross(cell)).collect();
    for base in [copy, mapped] {
        cells.push(Cell { persistent: false, ..base });
        cells.extend([Io::Nonblocking, Io::Async].map(|io| Cell { io, ..base }));
    }
    let buffers: &[u32] = if is_large { &[4096, 1 << 20] } else { &[512, 4096, 1 << 20] };
    let used = |size: u32| u64::from(size).min(largest);
    let differs = |size: &&u32| used(**size) != used(SIZE);
    cells.extend(buffers.iter().filter(differs).map(|&buffer| Cell { buffer, ..copy }));
    let windows = [4096, 1 << 20];
    cells.extend(windows.iter().filter(differs).map(|&window| Cell { window, ..mapped }));
    cells.push(Cell { ack: true, ..copy });
    cells
}

/// Every combination of what was chosen.
pub fn chosen(set: usize, choice: &CellChoice) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &send in &choice.send {
        for &receive in &choice.receive {
            for &persistent in &choice.persistent {
                for &io in &choice.io {
                    for &buffer in &choice.buffers {
                        for &window in &choice.windows {
                            let usual = Cell::usual(set, send, receive);
                            let ack = choice.ack;
                            let cell = Cell { persistent, io, buffer, window, ack, ..usual };
                            cells.push(cell);
                        }
                    }
                }
            }
        }
    }
    // A size that neither path has makes no difference, and a ring has its own waits.
    let same = |a: &Cell, b: &Cell| a.params("", false) == b.params("", false);
    let mut distinct: Vec<Cell> = Vec::new();
    for cell in cells {
        if !distinct.iter().any(|known| same(known, &cell)) {
            distinct.push(cell);
        }
    }
    distinct
}

/// The 16 cells of the study for each set, by sockets of processes or, as there, by kernel devices.
pub fn published(set: usize, by_device: bool) -> Vec<Cell> {
    let (send, receive) = match by_device {
        false => ([SendPath::Copy, SendPath::Mmap], [ReceivePath::Copy, ReceivePath::Mmap]),
        true => (
            [SendPath::DeviceCopy, SendPath::DeviceMmap],
            [ReceivePath::DeviceCopy, ReceivePath::DeviceMmap],
        ),
    };
    let runs = [
        (false, STUDY_WINDOWS[0], Io::Blocking),
        (false, STUDY_WINDOWS[1], Io::Blocking),
        (false, STUDY_WINDOWS[1], Io::Async),
        (true, STUDY_WINDOWS[1], Io::Blocking),
    ];
    let of_run = |(persistent, window, io)| {
        send.into_iter().flat_map(move |send| {
            receive.map(|receive| Cell {
                persistent,
                window,
                io,
                buffer: STUDY_BUFFER,
                ..Cell::usual(set, send, receive)
            })
        })
    };
    runs.into_iter().flat_map(of_run).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(cells: &[Cell], published: bool) -> BTreeSet<String> {
        cells.iter().map(|cell| cell.params("s", published).to_string()).collect()
    }

    #[test]
    fn designs_have_distinct_cells() {
        for (cells, count, published) in [
            (usual(0, 1 << 20, 1 << 20, [false; 2]), 36, false),
            (usual(0, 24_114, 2415, [false; 2]), 32, false),
            (usual(0, 1 << 30, 1 << 29, [false; 2]), 21, false),
            (usual(0, 24_114, 2415, [true, false]), 40, false),
            (usual(0, 24_114, 2415, [true; 2]), 56, false),
            (super::published(0, false), 16, true),
            (super::published(0, true), 16, true),
        ] {
            assert_eq!((cells.len(), names(&cells, published).len()), (count, count));
        }
    }

    #[test]
    fn sizes_are_parameters_of_paths_that_have_them() {
        let of = |send, receive| Cell::usual(0, send, receive).params("s", false);
        let sendfile = of(SendPath::Sendfile, ReceivePath::Splice);
        assert!(sendfile.integer("buffer_bytes").or(sendfile.integer("window_bytes")).is_none());
        let mixed = of(SendPath::Mmap, ReceivePath::Copy);
        let sizes = [mixed.integer("buffer_bytes"), mixed.integer("window_bytes")];
        assert_eq!(sizes, [Some(65536), Some(65536)]);
        assert_eq!(of(SendPath::Uring, ReceivePath::Uring).text("io"), Some("async"));
        let choice = CellChoice {
            send: vec![SendPath::Copy, SendPath::Sendfile],
            receive: vec![ReceivePath::Splice],
            persistent: vec![true],
            io: vec![Io::Blocking],
            buffers: vec![4096, 8192],
            windows: vec![4096, 8192],
            ack: false,
        };
        // Two buffers of copy, and one sendfile.
        assert_eq!(chosen(0, &choice).len(), 3);
    }

    /// The published cells are those of data/reference.
    #[test]
    fn published_cells_are_the_published_ones() {
        let text = include_str!("../../../data/reference/2020-transfer.toml");
        let table: toml::Table = text.parse().unwrap();
        let records = table["record"].as_array().unwrap();
        let params = |record: &toml::Value| {
            let all = record["params"].as_table().unwrap().iter();
            all.fold(Params::default(), |params, (name, value)| match value {
                toml::Value::Integer(number) => params.and(name, *number),
                other => params.and(name, other.as_str().unwrap()),
            })
        };
        let there: BTreeSet<String> = records.iter().map(|it| params(it).to_string()).collect();
        let sets = ["small", "file", "video"];
        for by_device in [false, true] {
            let here = sets.iter().flat_map(|set| {
                let cells = published(0, by_device).into_iter().map(Cell::as_published);
                cells.map(|cell| cell.params(set, true).to_string())
            });
            assert_eq!(here.collect::<BTreeSet<String>>(), there);
        }
    }
}
