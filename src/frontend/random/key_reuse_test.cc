// Keys that are used twice are found, with both lines; those that are not are not.
#include <functional>
#include <string>

#include "frontend/test_support.h"
#include "shoal/checkpoint.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/random.h"
#include "shoal/shard_map.h"
#include "shoal/vmap.h"

namespace shoal::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class KeyReuse : public testing::Test {
 protected:
  void SetUp() override { debug::check_key_reuse(true); }
  void TearDown() override { debug::check_key_reuse(false); }
};

Array draw(const Array& key) { return random::normal(key); }
Array draw_three(const Array& key) { return random::uniform(key, {3}); }

// What is said of a program, or nothing.
std::string said_of(const std::function<void(const Array&)>& program) {
  try {
    program(random::key(0));
    return "";
  } catch (const KeyReuseError& error) {
    return error.what();
  }
}
bool is_found(const std::function<void(const Array&)>& program) { return !said_of(program).empty(); }

TEST_F(KeyReuse, NamesBothLines) {
  const std::string said = said_of([](const Array& key) {
    random::normal(key);
    random::uniform(key);
  });
  EXPECT_THAT(said, ContainsRegex("^uniform: the key is used before, at key_reuse_test.cc:[0-9]+; split and fold_in "));
  EXPECT_THAT(said, ContainsRegex("\n  at key_reuse_test.cc:[0-9]+$"));
}

TEST_F(KeyReuse, NamesTheCallsOfJittedFunctions) {
  const auto f = jit([](const Array& key) { return random::normal(key); });
  const std::string said = said_of([&](const Array& key) {
    f(key);
    f(key);
  });
  EXPECT_THAT(said, ContainsRegex("^normal \\(called at .*\\): the key is used before, at .*, called at key_reuse"));
}

TEST_F(KeyReuse, DrawsAndSplitsUseAKey) {
  const std::function<void(const Array&)> draws[] = {
      [](const Array& k) { random::split(k); },
      [](const Array& k) { random::bits(k); },
      [](const Array& k) { random::randint(k, {2}, 0, 9); },
      [](const Array& k) { random::bernoulli(k); },
      [](const Array& k) { random::permutation(k, 5); },
      [](const Array& k) { random::choice(k, 5, {2}, {.replace = false}); },
      [](const Array& k) { random::categorical(k, zeros({3})); },
      [](const Array& k) { random::gamma(k, 2.0, {2}); },
      [](const Array& k) { random::gamma(k, 2.0, {2}, float32, "approximate"); },
      [](const Array& k) { random::beta(k, 2.0, 3.0); },
      [](const Array& k) { random::t(k, 2.0); },
      [](const Array& k) { random::poisson(k, 3.0); },
      [](const Array& k) { random::binomial(k, 10.0, 0.3); },
      [](const Array& k) {
        random::multinomial(k, 10.0, array({0.3, 0.7}));
      },
      [](const Array& k) { random::orthogonal(k, 2); },
      [](const Array& k) { random::ball(k, 2); },
      [](const Array& k) { random::wald(k, 1.0); },
      [](const Array& k) { random::double_sided_maxwell(k, 0.0, 1.0); },
      [](const Array& k) { random::normal(k, {}, complex64); },
  };
  for (const auto& f : draws) {
    EXPECT_EQ(said_of(f), "");
    EXPECT_TRUE(is_found([&](const Array& key) {
      f(key);
      f(key);
    })) << &f - draws;
    EXPECT_TRUE(is_found([&](const Array& key) {
      jit([&](const Array& k) {
        f(k);
        f(k);
        return k;
      })(key);
    })) << &f - draws;
  }
}

TEST_F(KeyReuse, OthersDoNot) {
  EXPECT_FALSE(is_found([](const Array& key) {
    draw(random::fold_in(key, 1));
    draw(random::fold_in(key, 1));
    random::key_data(key);
    random::key_impl(key);
    static_cast<void>(str(key));
    draw(random::clone(key));
    draw(key);
    draw(random::clone(key));
    draw(random::key(0));
  }));
}

TEST_F(KeyReuse, KeysAreFollowedWhereTheyAreMoved) {
  EXPECT_FALSE(is_found([](const Array& key) {
    const Array keys = random::split(key, {2, 3});
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < 3; ++k) draw(keys[{i, k}]);
    }
  }));
  EXPECT_TRUE(is_found([](const Array& key) {
    const Array keys = random::split(key, {2, 3});
    draw(keys[{1, 2}]);
    draw(keys.reshape({6})[5]);
  }));
  EXPECT_FALSE(is_found([](const Array& key) {
    const Array keys = random::split(key, {2, 3});
    draw(keys[{1, 2}]);
    draw(transpose(keys)[{1, 1}]);
  }));
  EXPECT_TRUE(is_found([](const Array& key) {
    const Array keys = random::split(key, 4);
    vmap(draw)(keys);
    draw(flip(keys, 0)[1]);
  }));
  EXPECT_THAT(said_of([](const Array& key) { vmap(draw)(stack({key, key})); }), HasSubstr("more than once here"));
  EXPECT_TRUE(is_found([](const Array& key) {
    draw(key);
    jit([](const Array& k) {
      return draw(concatenate({random::split(random::fold_in(k, 1)), expand_dims(k, 0)})[2]);
    })(key);
  }));
  EXPECT_TRUE(is_found([](const Array& key) {
    const Array moved = device_put(key, devices()[1]);
    draw(moved);
    draw(key);
  }));
}

TEST_F(KeyReuse, KeysThatFunctionsReturn) {
  const auto halves = jit([](const Array& key) {
    const Array keys = random::split(key);
    return std::pair(keys[0], keys[1]);
  });
  EXPECT_FALSE(is_found([&](const Array& key) {
    const auto [a, b] = halves(key);
    draw(a);
    draw(b);
  }));
  EXPECT_TRUE(is_found([&](const Array& key) {
    const auto [a, b] = halves(key);
    draw(b);
    draw(b);
  }));
  const auto same = jit([](const Array& key) { return std::pair(key, draw(key)); });
  EXPECT_TRUE(is_found([&](const Array& key) { draw(same(key).first); }));
  const auto captures = [](const Array& key) { return jit([key](const Array& x) { return x + draw(key); }); };
  EXPECT_TRUE(is_found([&](const Array& key) {
    captures(key)(1.0);
    draw(key);
  }));
}

TEST_F(KeyReuse, Loops) {
  const auto loop = [](const auto& body) { return lax::fori_loop(0, 3, body, Array(0.0F)); };
  EXPECT_THAT(said_of([&](const Array& key) { loop([&](const Array&, const Array& x) { return x + draw(key); }); }),
              HasSubstr("trips of a loop"));
  EXPECT_FALSE(is_found([&](const Array& key) {
    loop([&](const Array& i, const Array& x) { return x + draw(random::fold_in(key, i)); });
  }));
  EXPECT_FALSE(is_found([&](const Array& key) {
    const Array keys = random::split(key, 3);
    loop([&](const Array& i, const Array& x) { return x + draw(keys[i]); });
  }));
  const auto stepped = [](const Array& key) {
    const auto step = [](const Array& k, const Array& x) {
      const Array keys = random::split(k);
      return std::pair(keys[0], x + draw(keys[1]));
    };
    return lax::scan(step, key, zeros({4})).first;
  };
  EXPECT_FALSE(is_found([&](const Array& key) { draw(stepped(key)); }));
  EXPECT_TRUE(is_found([&](const Array& key) {
    stepped(key);
    draw(key);
  }));
  EXPECT_TRUE(is_found([](const Array& key) {
    lax::scan([](const Array& k, const Array& x) { return std::pair(k, x + draw(k)); }, key, zeros({4}));
  }));
  EXPECT_TRUE(is_found([](const Array& key) {
    const Array keys = random::split(key, 5);
    lax::map(draw, keys);
    draw(keys[4]);
  }));
}

TEST_F(KeyReuse, OfBranchesOneIsTaken) {
  const auto branches = [](const Array& key) {
    return lax::cond(
        Array(true), [&] { return draw(key); }, [&] { return random::uniform(key); });
  };
  EXPECT_FALSE(is_found([&](const Array& key) { branches(key); }));
  EXPECT_TRUE(is_found([&](const Array& key) {
    branches(key);
    draw(key);
  }));
  EXPECT_TRUE(is_found([&](const Array& key) {
    draw(key);
    jit(branches)(key);
  }));
}

TEST_F(KeyReuse, UnderTransformations) {
  const auto loss = [](const Array& key) {
    return [key](const Array& x) { return sum(x * random::uniform(key, {3})); };
  };
  EXPECT_FALSE(is_found([&](const Array& key) { grad(loss(key))(ones({3})); }));
  EXPECT_FALSE(is_found([&](const Array& key) { grad(checkpoint(loss(key)))(ones({3})); }));
  EXPECT_FALSE(is_found([&](const Array& key) { jit(grad(jit(loss(key))))(ones({3})); }));
  EXPECT_TRUE(is_found([&](const Array& key) {
    grad(loss(key))(ones({3}));
    draw(key);
  }));
  EXPECT_FALSE(is_found([](const Array& key) { vmap([&](const Array& x) { return x + draw(key); })(ones({3})); }));
}

TEST_F(KeyReuse, InRegions) {
  const auto own = [](const Array& key) {
    return draw_three(random::fold_in(key, lax::axis_index("i"))) + draw_three(key);
  };
  const auto region = shard_map(own, {.mesh = mesh_8(), .in_specs = {P()}, .out_specs = {P("i")}});
  EXPECT_FALSE(is_found([&](const Array& key) { jit(region)(key); }));
  EXPECT_TRUE(is_found([&](const Array& key) {
    jit(region)(key);
    draw(key);
  }));
  const auto each = shard_map([](const Array& keys) { return vmap(draw)(keys); },
                              {.mesh = mesh_8(), .in_specs = {P("i")}, .out_specs = {P("i")}});
  EXPECT_TRUE(is_found([&](const Array& key) {
    const Array keys = random::split(key, 16);
    jit(each)(keys);
    draw(keys[13]);
  }));
}

TEST(KeyReuseOff, NothingIsLookedFor) {
  EXPECT_FALSE(debug::is_key_reuse_checked());
  const Array key = random::key(0);
  const auto f = jit(draw);
  EXPECT_TRUE(same(f(key), f(key)));
  debug::check_key_reuse(true);
  EXPECT_TRUE(debug::is_key_reuse_checked());
  f(key);  // What was traced before, too.
  EXPECT_THROW(f(key), KeyReuseError);
  debug::check_key_reuse(false);
  EXPECT_TRUE(same(f(key), f(key)));
}

}  // namespace
}  // namespace shoal::test
