//! Many hosts: their names, their judgement by peers, groups compared, and links between them.

mod changes;
mod conduct;
mod drawn;
mod facts;
mod host;
mod judgement;
mod links;
mod names;
mod synthetic;
