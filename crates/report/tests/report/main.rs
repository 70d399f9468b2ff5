//! The views of a run from outside: what they look like, and what they keep to.

mod by_hand;
mod comparison;
mod doctor;
mod exporting;
mod families;
mod fixture;
mod history;
mod promises;
mod views;
