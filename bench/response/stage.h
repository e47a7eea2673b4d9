/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stages of a run.  The main thread alone moves from one to the next; the
 * other threads wait for a stage or, when they are busy, poll it now and then.
 */
#ifndef APPLIANCE_STAGE_H
#define APPLIANCE_STAGE_H

enum stage {
	STAGE_SETUP,  /* threads start and park */
	STAGE_SENSE,  /* sensors run */
	STAGE_LOAD,   /* CPU-bound threads run too */
	STAGE_EVENTS, /* touch events come; this is what is measured */
	STAGE_RESTED, /* CPU-bound threads have stopped */
	STAGE_QUIET,  /* sensors have stopped; the cost of a switch is measured */
	STAGE_LEAVE,  /* critical threads give up their scheduling */
	STAGE_EXIT,   /* all threads return */
};

enum stage stage_now(void);

/* Main thread: move on to the next stage. */
void stage_enter(enum stage next);

/* Wait until the run has come at least to this stage. */
void stage_wait(enum stage wanted);

/* Say that the calling thread has parked (+1) ... */
void stage_parked(void);

/* ... and wait until as many threads as this have, since the last such wait. */
void stage_wait_parked(unsigned threads);

#endif
