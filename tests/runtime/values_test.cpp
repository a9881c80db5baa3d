#include <limits>
#include <type_traits>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <weir/options.hpp>

#include "runtime/values.hpp"

namespace weir::settings {
namespace {

using namespace std::chrono_literals;

template <class T>
void expect_value(const result<T>& read, const std::type_identity_t<T>& value) {
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, value);
}

template <class T>
void expect_error(const result<T>& read, std::string_view words) {
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, errc::bad_option);
  EXPECT_EQ(read.error().text, words);
}

TEST(Sizes, HaveUnits) {
  expect_value(parse_bytes("0"), 0);
  expect_value(parse_bytes("512"), 512);
  expect_value(parse_bytes("512B"), 512);
  for (auto text : {"64k", "64K", "64KiB", "64 KiB"})
    expect_value(parse_bytes(text), 64 << 10);
  for (auto text : {"16m", "16M", "16MiB"})
    expect_value(parse_bytes(text), 16 << 20);
  for (auto text : {"3g", "3G", "3GiB"})
    expect_value(parse_bytes(text), uint64_t{3} << 30);
  expect_value(parse_bytes("1TiB"), uint64_t{1} << 40);
}

TEST(Sizes, RefuseWhatTheyDoNotMean) {
  for (auto text : {"", "k", "1q", "1KB", "1.5m", "-1", "+1", "0x10", "inf", "1k2", " 1"})
    expect_error(parse_bytes(text),
                 "'" + std::string(text) + "' is not a size such as 512, 64k, 16MiB or 1g");
}

TEST(Sizes, DoNotOverflow) {
  expect_value(parse_bytes("17179869183g"), uint64_t{17179869183} << 30);
  expect_error(parse_bytes("17179869184g"), "'17179869184g' is too large");
  expect_error(parse_bytes("18446744073709551615"), "'18446744073709551615' is too large"); // would be inf
  expect_error(parse_bytes("99999999999999999999"), "'99999999999999999999' is too large");
}

TEST(Sizes, AreShownInTheLargestUnitThatFits) {
  EXPECT_EQ(show_bytes(0), "0");
  EXPECT_EQ(show_bytes(1023), "1023");
  EXPECT_EQ(show_bytes(1536), "1536");
  EXPECT_EQ(show_bytes(64 << 10), "64KiB");
  EXPECT_EQ(show_bytes(uint64_t{1} << 40), "1TiB");
  EXPECT_EQ(show_bytes(infinite), "inf");
}

RC_GTEST_PROP(Sizes, AreReadAsTheyAreShown, ()) {
  auto shift = *rc::gen::inRange(0, 50);
  auto bytes = *rc::gen::inRange<uint64_t>(0, 1 << 14) << shift;
  expect_value(parse_bytes(show_bytes(bytes)), bytes);
  auto any = *rc::gen::suchThat(rc::gen::arbitrary<uint64_t>(), [](uint64_t b) { return b != infinite; });
  expect_value(parse_bytes(show_bytes(any)), any);
}

TEST(Times, HaveUnits) {
  expect_value(parse_duration("0"), 0ns);
  expect_value(parse_duration("7ns"), 7ns);
  expect_value(parse_duration("20us"), 20us);
  expect_value(parse_duration("5ms"), 5ms);
  expect_value(parse_duration("2 s"), 2s);
  expect_value(parse_duration("1min"), 1min);
  expect_value(parse_duration("3h"), 3h);
}

TEST(Times, RefuseWhatTheyDoNotMean) {
  for (auto text : {"", "5", "s", "5m", "1.5s", "-1s", "5 years", "1s2"})
    expect_error(parse_duration(text),
                 "'" + std::string(text) + "' is not a time such as 20us, 5ms, 2s or 1min");
  expect_error(parse_duration("2562048h"), "'2562048h' is too large"); // 292 years
}

RC_GTEST_PROP(Times, AreReadAsTheyAreShown, ()) {
  auto unit = *rc::gen::element<int64_t>(1, 1'000, 1'000'000, 1'000'000'000, 60'000'000'000,
                                         3'600'000'000'000);
  auto time = std::chrono::nanoseconds{*rc::gen::inRange<int64_t>(0, 1'000'000) * unit};
  expect_value(parse_duration(show_duration(time)), time);
}

TEST(Numbers, AreWhole) {
  expect_value(parse_integer("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  expect_error(parse_integer("9223372036854775808"), "'9223372036854775808' is too large");
  for (auto text : {"", "x", "1.0", "1 ", "0x1", "--1"})
    expect_error(parse_integer(text), "'" + std::string(text) + "' is not a whole number");
}

TEST(Numbers, OrHaveAFraction) {
  expect_value(parse_number("1.5"), 1.5);
  expect_value(parse_number("-2e3"), -2000);
  for (auto text : {"", "x", "1,5", "nan", "inf", "1.5x"})
    expect_error(parse_number(text), "'" + std::string(text) + "' is not a number");
}

TEST(Bools, AreTrueOrFalse) {
  expect_value(parse_bool("true"), true);
  expect_value(parse_bool("false"), false);
  for (auto text : {"", "yes", "1", "True"})
    expect_error(parse_bool(text), "'" + std::string(text) + "' is not true or false");
}

TEST(Lists, AreSplitAtCommas) {
  using list = std::vector<std::string>;
  expect_value(parse_list(""), list{});
  expect_value(parse_list("[]"), list{});
  expect_value(parse_list("a"), list{"a"});
  expect_value(parse_list("a, b c ,d"), list{"a", "b c", "d"});
  expect_value(parse_list(" [ a,b ] "), list{"a", "b"});
  expect_value(parse_list("tcp://[::]:1, tcp://[::1]:2"), list{"tcp://[::]:1", "tcp://[::1]:2"});
  expect_value(parse_list(R"(["a,b", "", "say \"x\""])"), list{"a,b", "", "say \"x\""});
}

TEST(Lists, RefuseWhatIsHalf) {
  expect_error(parse_list("[a"), "'[a' is not a list: the closing ] is missing");
  expect_error(parse_list("["), "'[' is not a list: the closing ] is missing");
  expect_error(parse_list("a,"), "an item of the list is empty");
  expect_error(parse_list(",a"), "an item of the list is empty");
  expect_error(parse_list("a,,b"), "an item of the list is empty");
  expect_error(parse_list("a, [b"), "'[b' is not an item of a list: use quotes");
  expect_error(parse_list(R"(a, b")"), R"('b"' is not an item of a list: use quotes)");
  expect_error(parse_list(R"("a" b)"), "'b' is not a comma between two items of a list");
  expect_error(parse_list(R"("a)"), R"('"a' is not well quoted: the closing quote is missing)");
}

RC_GTEST_PROP(Lists, AreReadAsTheyAreShown, (const std::vector<std::string>& items)) {
  expect_value(parse_list(show_list(items)), items);
}

TEST(Texts, AreQuotedOnlyWhenTheyMust) {
  EXPECT_EQ(show_text("tcp://[::]:7000, x"), "tcp://[::]:7000, x");
  EXPECT_EQ(show_text(""), R"("")");
  EXPECT_EQ(show_text(" a"), R"(" a")");
  EXPECT_EQ(show_text("a # b"), R"("a # b")");
  EXPECT_EQ(show_text("a\\\"\n"), R"("a\\\"\n")");
}

TEST(Texts, RefuseWhatIsNotWellQuoted) {
  expect_error(parse_text(R"("a)"), R"('"a' is not well quoted: the closing quote is missing)");
  expect_error(parse_text(R"("a" b)"),
               R"('"a" b' is not well quoted: there is text behind the closing quote)");
  expect_error(parse_text(R"("\x")"), R"('"\x"' is not well quoted: \ is followed by one of " \ n r t)");
}

RC_GTEST_PROP(Texts, AreReadAsTheyAreShown, (const std::string& text)) {
  expect_value(parse_text(show_text(text)), text);
}

TEST(Nearest, FindsWhatWasMeant) {
  std::vector<std::string> names{"ration", "ration-messages", "fragment", "spin"};
  EXPECT_EQ(nearest("rations", names), "ration");
  EXPECT_EQ(nearest("ration_messages", names), "ration-messages");
  EXPECT_EQ(nearest("fragmnet", names), "fragment");
  EXPECT_EQ(nearest("spi", names), "spin");
  EXPECT_EQ(nearest("sipn", names), "spin");
}

TEST(Nearest, DoesNotGuess) {
  EXPECT_EQ(nearest("threads", {"ration", "spin"}), "");
  EXPECT_EQ(nearest("x", {}), "");
}

} // namespace
} // namespace weir::settings
