#pragma once
// The service of calculator_server.cpp, apart from its program: so that calculator_test.cpp can have it too.
#include <stdexcept>

#include <weir/node.hpp>

#include "calculator.capnp.h"

using add = weir::method<&Calculator::Client::addRequest>;
using divide = weir::method<&Calculator::Client::divideRequest>;

class calculator : public weir::service<Calculator> {
public:
  using service::service;
  weir::handlers make_handlers() override {
    return {on<add>([](add::in in, add::out out) { out.setSum(int64_t{in.getA()} + in.getB()); }),
            on<divide>([](divide::in in, divide::out out) {
              if (in.getDivisor() == 0)
                throw std::domain_error{"division by zero"}; // what the caller gets; the service lives on
              out.setQuotient(int64_t{in.getDividend()} / in.getDivisor());
            })};
  }
};
