//! The views of a run through the public API.

mod by_hand;
mod comparison;
mod doctor;
mod exporting;
mod families;
mod fixture;
mod history;
mod load;
mod promises;
mod views;
