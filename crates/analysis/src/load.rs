//! Analysis of a load sweep with closed-loop clients: saturation, knee, bottleneck, and the
//! operational laws that predict and check throughput (Lazowska, Zahorjan, Graham and Sevcik,
//! Quantitative System Performance, Prentice Hall 1984; cited as "Lazowska").
//!
//! N is the number of clients, X the throughput, R the response time, Z the think time, D the
//! total demand of a request (R at one client), and Dmax its demand at the bottleneck.

/// Errors: a step in which more than this share of the requests failed is measured, but no answer:
/// neither the highest throughput nor a point of the curve.
pub const ERRORS_MAX: f64 = 0.001;

mod batch;
mod bisection;
mod bottleneck;
mod condition;
mod judge;
mod laws;
mod measured;
mod memory;
mod proof;
mod search;
mod shape;
mod tail;

pub use batch::{StepBatch, batch_interval};
pub use bottleneck::{BUSY, Name, Resource, Use, bottleneck};
pub use condition::{LoadCondition, conditions, objectives};
pub use judge::{
    LeftOut, OpenLimit, StepAsked, StepJudgement, WRONG_CONTENT, busy_generator, fault_words,
    judge_step, late_generator, limit_of_window, measure_for, whole_seconds,
};
pub use laws::{Little, bound, constant_service_waits_beyond, little, mean_value_analysis};
pub use measured::{
    BUSY_MAX, COMPLETIONS_NEEDED, DUE_MIN, MeasuredStep, MeasuredSweep, OfMembers, ReachedLimit,
    SLOTS, SWEEPS, ServerEnd, Stall, WAITING_MIN,
};
pub use memory::MemoryGrowth;
pub use proof::{LoadEffect, Proof, prove};
pub use search::{ALLOWED, Highest, LEVEL, Search, SearchWindow, Seen, WINDOWS};
pub use shape::{Saturation, Shape, ShapeCurve, ShapeEstimate, ShapePoint, SweepPoint, shape};
pub use tail::{quantile_limits, share_limits};
