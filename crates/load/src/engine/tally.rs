//! What a thread counts, and all threads of a window together.

use std::collections::BTreeMap;

use fathom_analysis::load::SLOTS;
use fathom_record::load_facts::PHASES;
use fathom_record::load_window::add_each;
use fathom_record::{Histogram, LoadSlot, LoadWindow};

use super::Workload;
use super::fault::Fault;
use super::heat::Heat;

/// Slices of a heat map in one sweep's window, two of a slot: three sweeps have sixty.
pub const SLICES: usize = 2 * SLOTS;

#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// What is recorded of a share, and judged. Its faults are those of `window_faults`, by words.
    pub window: LoadWindow,
    pub heat: Heat,
    /// Faults, in the warm-up too.
    pub faults: BTreeMap<Fault, u64>,
    pub window_faults: BTreeMap<Fault, u64>,
    /// A file of which a body had another content.
    pub wrong_file: Option<u32>,
    /// Congestion control of the sockets.
    pub congestion: Option<String>,
}

impl Tally {
    pub fn new(work: &Workload) -> Self {
        let times = || Histogram::with_room(work.timeout_ns);
        let slot = || LoadSlot {
            times: times(),
            times_from_send: work.rate.is_some().then(times),
            ..LoadSlot::default()
        };
        let slots = (0..SLOTS).map(|_| slot()).collect();
        let phases = PHASES.iter().filter(|_| work.has_phases()).map(|_| times()).collect();
        let window = LoadWindow { slots, phases, ..LoadWindow::default() };
        Self { window, heat: Heat::new(SLICES), ..Self::default() }
    }

    pub fn merge(&mut self, other: &Self) {
        self.window.add_counts(&other.window);
        self.window.add_slots(&other.window);
        self.heat.merge(&other.heat);
        add_each(&mut self.faults, &other.faults);
        add_each(&mut self.window_faults, &other.window_faults);
        self.wrong_file = self.wrong_file.or(other.wrong_file);
        self.congestion = self.congestion.take().or_else(|| other.congestion.clone());
    }

    pub fn failed(&self) -> u64 {
        self.faults.values().sum()
    }
}
