//! What the 2020 study concluded, as effects that can be measured again.

use fathom_analysis::effects::{Contrast, effect};
use fathom_paths::{Io, ReceivePath, SendPath};

use crate::cell::{Cell, Factor};

/// What is claimed of the time with a level ÷ the time with the reference level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// Below 1.
    Faster,
    /// Above 1.
    Slower,
    /// Within 10 % of 1.
    Same,
}

const SAME: [f64; 2] = [0.9, 1.1];

pub struct Claim {
    pub text: &'static str,
    pub set: &'static str,
    factor: Factor,
    levels: [u32; 2],
    /// The cells that it is about.
    of: fn(&Cell) -> bool,
    pub sense: Sense,
    /// The ratio of the published means, by the same contrast.
    pub published: f64,
}

const WINDOWS: [u32; 2] = [16 * 4096, 256 * 4096];

fn is_blocking(cell: &Cell) -> bool {
    cell.io == Io::Blocking && cell.window == WINDOWS[1]
}

pub const ALL: &[Claim] = &[
    Claim {
        text: "one connection for all files is faster for small ones",
        set: "small",
        factor: Factor::Connection,
        levels: [1, 0],
        of: is_blocking,
        sense: Sense::Faster,
        published: 0.26,
    },
    Claim {
        text: "the number of connections does not matter for two large files",
        set: "video",
        factor: Factor::Connection,
        levels: [1, 0],
        of: is_blocking,
        sense: Sense::Same,
        published: 0.98,
    },
    Claim {
        text: "receiving by mmap is faster than by write",
        set: "file",
        factor: Factor::Receive,
        levels: [0, 1],
        of: is_blocking,
        sense: Sense::Faster,
        published: 0.18,
    },
    Claim {
        text: "sending by mmap is faster than by read where the receiver maps too",
        set: "file",
        factor: Factor::Send,
        levels: [0, 1],
        of: |cell| is_blocking(cell) && cell.receive == ReceivePath::Mmap,
        sense: Sense::Faster,
        published: 0.53,
    },
    Claim {
        text: "sending by mmap makes no difference where the receiver writes",
        set: "file",
        factor: Factor::Send,
        levels: [0, 1],
        of: |cell| is_blocking(cell) && cell.receive == ReceivePath::Copy,
        sense: Sense::Same,
        published: 1.08,
    },
    Claim {
        text: "windows of 256 pages are faster than of 16 where both ends map",
        set: "file",
        factor: Factor::Window,
        levels: WINDOWS,
        of: |cell| {
            (cell.send, cell.receive, cell.io) == (SendPath::Mmap, ReceivePath::Mmap, Io::Blocking)
        },
        sense: Sense::Faster,
        published: 0.76,
    },
    Claim {
        text: "the size of windows makes no difference for small files",
        set: "small",
        factor: Factor::Window,
        levels: WINDOWS,
        of: |cell| {
            let maps = (cell.send, cell.receive) != (SendPath::Copy, ReceivePath::Copy);
            maps && cell.io == Io::Blocking
        },
        sense: Sense::Same,
        published: 0.99,
    },
    Claim {
        text: "sending by mmap is slower for small files where the receiver maps too",
        set: "small",
        factor: Factor::Send,
        levels: [0, 1],
        of: |cell| is_blocking(cell) && !cell.persistent && cell.receive == ReceivePath::Mmap,
        sense: Sense::Slower,
        published: 1.04,
    },
    Claim {
        text: "asynchronous sockets make no difference",
        set: "file",
        factor: Factor::Io,
        levels: [0, 2],
        of: |cell| !cell.persistent && cell.window == WINDOWS[1],
        sense: Sense::Same,
        published: 1.02,
    },
];

impl Claim {
    /// Over the cells of a set; the weights are of those that it is about, which come with it.
    pub fn contrast(&self, cells: &[Cell]) -> Option<(Contrast, Vec<usize>)> {
        let about = cells.iter().enumerate().filter(|(_, cell)| (self.of)(cell));
        let (numbers, levels): (Vec<usize>, Vec<_>) =
            about.map(|(number, cell)| (number, cell.levels())).unzip();
        let place = Factor::ALL.iter().position(|factor| *factor == self.factor)?;
        Some((effect(&levels, place, self.levels)?, numbers))
    }

    /// By the interval of the ratio here.
    pub fn word(&self, [low, high]: [f64; 2]) -> &'static str {
        let [least, most] = match self.sense {
            Sense::Faster => [0.0, 1.0],
            Sense::Slower => [1.0, f64::INFINITY],
            Sense::Same => SAME,
        };
        match () {
            () if low >= least && high <= most => "confirmed",
            () if high < least || low > most => "refuted",
            () => "inconclusive",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::published;

    /// The published ratios are those of data/reference.
    #[test]
    fn published_ratios_are_those_of_the_study() {
        let text = include_str!("../../../data/reference/2020-transfer.toml");
        let table: toml::Table = text.parse().unwrap();
        let cells = published(0, false);
        for claim in ALL {
            let (contrast, numbers) = claim.contrast(&cells).unwrap();
            let time = |number: &usize| {
                let wanted = cells[*number].params(claim.set, true).to_string();
                let record = table["record"].as_array().unwrap().iter().find(|record| {
                    let all = record["params"].as_table().unwrap().iter();
                    let add =
                        |params: fathom_record::Params, (name, value): (&String, _)| match value {
                            &toml::Value::Integer(number) => params.and(name, number),
                            other => params.and(name, other.as_str().unwrap()),
                        };
                    all.fold(fathom_record::Params::default(), add).to_string() == wanted
                });
                record.unwrap()["measured"].as_float()
            };
            let times: Vec<Option<f64>> = numbers.iter().map(time).collect();
            let ratio = contrast.ratio(&times).unwrap();
            let rounded = (ratio * 100.0).round() / 100.0;
            assert_eq!(rounded, claim.published, "{}: {ratio}", claim.text);
            // The study's own figures do not contradict it.
            assert_eq!(claim.word([ratio, ratio]), "confirmed", "{}", claim.text);
        }
    }

    #[test]
    fn words_follow_the_interval() {
        let [faster, same] = [&ALL[0], &ALL[1]];
        let slower = ALL.iter().find(|it| it.sense == Sense::Slower).unwrap();
        for (claim, interval, expected) in [
            (faster, [0.5, 0.9], "confirmed"),
            (faster, [0.9, 1.1], "inconclusive"),
            (faster, [1.1, 1.3], "refuted"),
            (slower, [1.1, 1.3], "confirmed"),
            (slower, [0.9, 1.1], "inconclusive"),
            (slower, [0.5, 0.9], "refuted"),
            (same, [0.95, 1.05], "confirmed"),
            (same, [0.5, 0.7], "refuted"),
            (same, [0.8, 1.0], "inconclusive"),
        ] {
            assert_eq!(claim.word(interval), expected, "{interval:?}");
        }
    }
}
