// SPDX-License-Identifier: MIT OR Apache-2.0
//! The deepest path from each function of a graph, and the reasons why it is a lower bound.
use super::{Doubts, Graph, Index};

/// Functions each of which calls every other, directly or indirectly; or one function.
pub(super) struct Group {
    /// The member by which the walk entered the group is first.
    pub members: Vec<Index>,
    pub recursive: bool,
    pub doubts: Doubts,
}

/// Tarjan's depth-first walk, without recursion of its own.
pub(super) struct Walk {
    pub bytes: Vec<u64>,
    pub next: Vec<Option<Index>>,
    pub group_of: Vec<usize>,
    pub groups: Vec<Group>,
}

/// No group yet.
const NONE: usize = usize::MAX;

impl Walk {
    pub fn over(graph: &Graph, starts: impl IntoIterator<Item = Index>) -> Self {
        let count = graph.functions.len();
        let mut walk = Self {
            bytes: vec![0; count],
            next: vec![None; count],
            group_of: vec![NONE; count],
            groups: Vec::new(),
        };
        let mut number = vec![NONE; count];
        let mut low = vec![NONE; count];
        let mut finished = vec![false; count];
        let mut ungrouped = Vec::new();
        let mut visited = 0;
        for start in starts {
            if number[start] != NONE {
                continue;
            }
            let mut path = vec![(start, 0)];
            while let Some((at, edge)) = path.last_mut() {
                let at = *at;
                if *edge == 0 {
                    number[at] = visited;
                    low[at] = visited;
                    visited += 1;
                    ungrouped.push(at);
                }
                let calls = &graph.functions[at].calls;
                // Each edge is visited twice: before its target, and once the target is finished.
                if let Some(&to) = calls.get(*edge) {
                    *edge += 1;
                    if number[to] == NONE {
                        path.push((to, 0));
                    } else if walk.group_of[to] == NONE {
                        low[at] = low[at].min(number[to]);
                    }
                    continue;
                }
                path.pop();
                for &to in calls {
                    if walk.group_of[to] == NONE {
                        low[at] = low[at].min(low[to]);
                    }
                    // A call back into the present path is recursion, and counts once.
                    if finished[to] && (walk.next[at].is_none() || walk.bytes[to] > walk.bytes[at])
                    {
                        walk.bytes[at] = walk.bytes[to];
                        walk.next[at] = Some(to);
                    }
                }
                let own = graph.functions[at].frame.map_or(0, |frame| frame.bytes);
                walk.bytes[at] = walk.bytes[at].saturating_add(own);
                finished[at] = true;
                if low[at] == number[at] {
                    walk.close(graph, &mut ungrouped, at);
                }
            }
        }
        walk
    }

    /// All functions found since `first` are a group.
    fn close(&mut self, graph: &Graph, ungrouped: &mut Vec<Index>, first: Index) {
        let begin = ungrouped.iter().rposition(|&index| index == first).unwrap_or(0);
        let members = ungrouped.split_off(begin);
        let own = self.groups.len();
        for &member in &members {
            self.group_of[member] = own;
        }
        let recursive = members.len() > 1 || graph.functions[first].calls.contains(&first);
        let mut doubts = Doubts { recursive, ..Doubts::default() };
        for &member in &members {
            doubts.add(graph.functions[member].doubts());
            for &to in &graph.functions[member].calls {
                if self.group_of[to] != own {
                    doubts.add(self.groups[self.group_of[to]].doubts);
                }
            }
        }
        self.groups.push(Group { members, recursive, doubts });
    }
}
