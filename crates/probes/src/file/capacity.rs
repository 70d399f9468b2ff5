//! file.capacity: how large a file stays in memory.

use fathom_record::{Better, Counters, Host, NoModel, Params, Prediction, Unit};

use crate::{About, ByHand, Known};

/// file.capacity.
pub struct Capacity;

static ABOUT: About = About {
    id: "file.capacity",
    title: "page cache",
    unit: Unit::Bytes,
    better: Better::Higher,
    timed: "nothing: the largest file that is still in memory as a whole after it was read twice, \
            by the kernel's count of its pages, found to 2 %",
    not_timed: "the time of a block, which is told beside every size, with its deviation",
    model: "what a new program could have (MemAvailable), or what the control group's limit leaves",
    source: "Linux mm/show_mem.c: si_mem_available; mm/memcontrol.c charges pages of files to the \
             group that reads them first",
    pitfalls: &[
        "a size that is looked at once while another program takes memory seems too large: it is \
         looked at twice before it counts",
        "the reading itself decides what stays: a file a little too large, read from its beginning \
         again and again, may lose nearly all of itself",
        "pages that wait to be written count as memory: all is written before it is read",
        "in a group of version 1 an order of magnitude smaller than the machine, the kernel's own \
         pages for the file count too",
    ],
    parameters: &[],
    needs: &[],
    requires: "",
    published: "2016: 5.5 of 8 GB",
    expects: Counters::DEVICE,
    noise_limit: 0.10,
};

/// Memory that is free for pages is not free to the last: watermarks, and the kernel's own pages
/// for the file.
const TOLERANCE: f64 = 0.15;

/// What it should be by the room there was before it began, which no earlier result tells.
pub fn prediction(room_bytes: f64, origin: &str) -> Prediction {
    Prediction::sum(room_bytes, 0.0, TOLERANCE, "room for pages beforehand", ABOUT.source)
        .with_quantity("room", room_bytes, Unit::Bytes, origin)
        .if_above("memory was freed meanwhile, or other programs were pushed out of it")
        .if_below(
            "others took memory meanwhile, or the kernel keeps what was used often before and \
             gives a file that is read from end to end only a part",
        )
}

impl ByHand for Capacity {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn command(&self) -> &'static str {
        "fathom file capacity"
    }

    fn predict(&self, _: &Params, host: &Host, _: &Known<'_>) -> Result<Prediction, NoModel> {
        let limit = host.cgroup.memory_limit_bytes;
        let room = host.memory.available_bytes.into_iter().chain(limit).min();
        let none = || NoModel("the kernel does not tell how much memory is available".to_owned());
        room.map(|room| prediction(room as f64, "host facts")).ok_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_of_machine_and_group_is_the_room() {
        let mut host = Host::default();
        let predict = |host: &Host| Capacity.predict(&Params::none(), host, &Known::new(&[]));
        assert!(predict(&host).is_err());
        host.memory.available_bytes = Some(8 << 30);
        assert_eq!(predict(&host).map(|it| it.value), Ok(Some(8.0 * f64::from(1 << 30))));
        host.cgroup.memory_limit_bytes = Some(1 << 30);
        assert_eq!(predict(&host).map(|it| it.value), Ok(Some(f64::from(1 << 30))));
    }
}
