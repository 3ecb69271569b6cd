// Neural networks for C++ programs: modules, layers, functions, initialisers.
#pragma once
#include "flambeau/nn/functional.h"
#include "flambeau/nn/init.h"
#include "flambeau/nn/layers.h"
#include "flambeau/nn/module.h"
