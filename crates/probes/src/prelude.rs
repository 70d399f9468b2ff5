//! The names that most probes use.

pub(crate) use fathom_analysis::statistics;
pub(crate) use fathom_fileio::PathInfoSource;
pub(crate) use fathom_measure::sampler::SamplerFault;
pub(crate) use fathom_measure::{Clock, Sampler, SamplerWork, affinity};
pub(crate) use fathom_metric::order::Order;
pub(crate) use fathom_metric::sum::{Sum, Term};
pub(crate) use fathom_metric::{
    About, ByHand, Derived, DerivedEstimate, Ending, Event, Inputs, Measured, MetricDisk,
    MissingInput, Parameter, Probe, ProbeCase, Procedure, ProcedureError, Recorder, Sizes, earlier,
    metric, observed, too_short,
};
pub(crate) use fathom_record::quantity::quantity;
pub(crate) use fathom_record::{
    Better, Cause, Counters, Disturbance, Effort, Fact, Host, NoModel, NotSelected, Origin, Params,
    Prediction, Reason, Record, Remedy, Stratum, Unit, Verdict,
};

pub(crate) use crate::buffer::{Buffer, BufferPage, binary_size};
pub(crate) use crate::memory_budget::MemoryBudget;
pub(crate) use crate::shared::{
    Model, Result, all_parsed, at_least, at_least_getppid, at_most, at_most_earlier, each,
    each_parsed, getppid, parsed, same_as, single, thread_usage,
};
pub(crate) use crate::uarch;
