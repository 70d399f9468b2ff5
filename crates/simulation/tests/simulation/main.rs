//! The statistics keep their word in simulated worlds.

mod guarantees;
mod modes_and_clusters;
