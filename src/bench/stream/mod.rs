//! Streams as an experiment: what the viewers of a scenario do and when ([`plan`]), what a player's buffer makes of the
//! bytes that arrive ([`player`]), what whole disks did meanwhile ([`series`]), and the sentence in the end ([`verdict`]). Pure: who has clocks and sockets is elsewhere.

pub mod plan;
pub mod player;
pub mod series;
pub mod verdict;
