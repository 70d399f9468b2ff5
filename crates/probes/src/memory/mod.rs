//! Metrics of memory: how long a load takes at each level, how many bytes a second pass, what a
//! page costs that is not there yet, and how long a line takes from core to core.

mod crew;
mod seats;
mod vectors;
