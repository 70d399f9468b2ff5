//! Many hosts: their names, their judgement by peers, and links between them.

mod facts;
mod judgement;
mod links;
mod names;
mod synthetic;
