#include <iostream>

#include <weir/errc.hpp>

int main() { std::cout << "the outcome none is called " << to_string(weir::errc::none) << '\n'; }
