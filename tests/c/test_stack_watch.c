/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack_support.h"
int main(void){return 0;}
