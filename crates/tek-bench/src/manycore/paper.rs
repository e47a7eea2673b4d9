// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's results for each figure (rtos-linux-scalability-2018, on 72 cores), where its text
//! gives them in numbers or words; its curves are not read off.

use super::Part;

/// Beside ours, under its table.
pub fn statement(part: Part) -> &'static str {
    match part {
        Part::Spin => {
            "Fig. 3: TAS and TATAS best below 6 cores, then collapse; BACKOFF falls slowly; K42 \
             keeps its throughput and is worst below 3 cores"
        }
        Part::Uncontended => "it has no such figure",
        Part::Nodes => {
            "Fig. 4: queue nodes, stacks and control blocks homed locally: K42 scales about 20% \
             better; nothing for TAS, TATAS and BACKOFF"
        }
        Part::Math => {
            "Fig. 5: glibc beside newlib: log and log10 about 30% faster, atan 6% slower, others \
             about 5% faster"
        }
        Part::Alloc => {
            "Fig. 6: TLSF and newlib (one lock) collapse; glibc scales, at about half of Hoard's \
             throughput"
        }
        Part::Getters => {
            "Fig. 7: FAST about 40% above the generic getter, SPR about 15% above FAST"
        }
        Part::Blackscholes => {
            "Figs 8, 9: all scale well, FMP-Base a bit better; K42 and CFS change nothing; work \
             scales, file does not at all"
        }
        Part::Swaptions => "Fig. 10: all nearly the same, FMP about 5% better in some cases",
        Part::Streamcluster => {
            "Figs 11 to 13: Linux-Base far better than FMP-Base, as its barriers spin longer; \
             Linux-CFS declines from 64 threads on; FMP-K42 as FMP-Base; with spin barriers all \
             are alike and far better"
        }
        Part::Dedup => {
            "Figs 14, 15: FMP-Base about twice Linux-CFS below 50 threads, Linux-CFS best at last; \
             FMP-K42 below FMP-Base; Linux-Base starves; Linux-Base-pt worst"
        }
        Part::Profile => "it has no such profiler",
    }
}
